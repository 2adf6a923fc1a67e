/* range.c -- see range.h.  The toolkit's headers find the profiler themselves: nothing is linked.
 */
#include "range.h"

#ifdef IG_RANGES
#include <nvtx3/nvToolsExt.h>

void ig_range_begin(const char *name, int number)
{
    nvtxEventAttributes_t a = { .version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE };
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = name;
    a.payloadType = NVTX_PAYLOAD_TYPE_INT32;
    a.payload.iValue = number;
    nvtxRangePushEx(&a);
}
void ig_range_end(void) { nvtxRangePop(); }
#endif
