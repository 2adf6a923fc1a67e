return { describe = function() end }
