# gpu_about.sh -- what gpu.sh and gpu_bundle.sh know of an engine; sourced.
ids() { # count, vocabulary
    awk -v n="$1" -v v="$2" 'BEGIN { x = 12345
        for (i = 0; i < n; i++) { x = (x * 1103515245 + 12345) % 2147483648
            printf "%s%d", i ? "," : "", int(x / 65536) % v } }'
}
golden() { # where the checkpoint of that name is, if it is
    for g in "tests/golden/$1" "${INGOT_SHARED:-../shared}/goldens/$1"; do
        if [ -d "$g" ]; then echo "$g"; return; fi
    done
    echo "tests/golden/$1"
}
# source: a checkpoint, or --synth for random weights; vocab; tokens: of the prompt; decoder: how
# many the decoder beside an encoder starts with (0: there is none)
set_about() {
    decoder=0
    case $1 in
    mixtral-bf16) source=$(golden mixtral-bf16-sharded) vocab=512 tokens=${SHORT:-150} ;;
    demo) source=tests/data/tiny-mixtral.gguf vocab=4096 tokens=${LONG:-1150} ;;
    demo-kvq8) source=tests/data/tiny-mixtral.gguf vocab=4096 tokens=${SHORT:-150} ;;
    latent-*) source=--synth=7 vocab=100 tokens=${SHORT:-100} ;;
    odd-long) source=--synth=7 vocab=37 tokens=1060 ;;
    odd-*) source=--synth=7 vocab=37 tokens=${SHORT:-100} ;;
    unified | xc-mixtral | xc-stream | xc-static | xc-traced) source=$(golden mixtral) vocab=512 tokens=${SHORT:-150} ;;
    xc-odd) source=--synth=7 vocab=37 tokens=${SHORT:-100} ;;
    switch-transformer) source=$(golden "$1") vocab=512 tokens=${SHORT:-150} decoder=$((tokens - 7)) ;;
    switch-* | xc-switch) source=--synth=7 vocab=100 tokens=${SHORT:-1100} decoder=$((tokens - 7)) ;;
    xc-*) source=$(golden "${1#xc-}") vocab=512 tokens=${SHORT:-150} ;;
    items-*) source=--synth=7 vocab=64 tokens=${SHORT:-16} ;; # emulated, a token takes half a second
    fast-switch) source=--synth=7 vocab=64 tokens=70 decoder=60 ;;
    fast-qwen3) source=--synth=7 vocab=64 tokens=150 ;;
    fast-*) source=--synth=7 vocab=64 tokens=70 ;; # enough for the matrix units
    blocks-* | wide-* | dense-* | longrope | llama3) source=--synth=7 vocab=64 tokens=${SHORT:-100} ;;
    *) source=$(golden "$1") vocab=512 tokens=${SHORT:-150} ;;
    esac
}
# Of the engine that set_about named, what eval reads.
prompt() {
    echo "--tokens $(ids "$tokens" "$vocab")"
    [ "$decoder" = 0 ] || echo "--decoder-tokens $(ids "$decoder" "$vocab")"
}
# A program as it is where no device is.
cpu() { CUDA_VISIBLE_DEVICES='' INGOT_NO_DEVICE=1 "$@"; }
