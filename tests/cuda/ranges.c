/* ranges.c -- stands in for a profiler: prints the ranges of a debug build to the file RANGES names.
 *
 * NVTX loads it by NVTX_INJECTION64_PATH and takes its functions in place of none.
 */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *to;
static _Thread_local int depth;

static int push(const nvtxEventAttributes_t *a)
{
    fprintf(to, "%d %s %d\n", depth, a->message.ascii, a->payload.iValue);
    return depth++;
}
static int pop(void) { return --depth; }

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *calls = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned n = 0;
    to = fopen(getenv("RANGES"), "w");
    if (!to || !calls || !calls->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &n)) return 0;
    *table[NVTX_CBID_CORE_RangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
