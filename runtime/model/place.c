/* place.c -- where several memory nodes are: each node gets what its threads read.
 *
 * A page lies on the node of the thread that writes to it first.  Before the weights are read in,
 * every thread writes to the pages of its share of each matrix (team.h), which is what it computes
 * with in decode; the work area goes round the threads.  How the bytes come later does not move a
 * page.
 */
#include "state.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

static void own(unsigned char *from, uint64_t bytes)
{
    for (volatile unsigned char *p = from; p < from + bytes; p += PAGE) *p = 0;
}

/* This thread's share of n items of `step` bytes each. */
static void own_share(const struct ig_engine *e, int tid, uint64_t off, int n, uint64_t step)
{
    int lo, hi;
    ig_team_share(&e->team, tid, n, &lo, &hi);
    if (lo < hi)
        own(e->mem + IG_MEM_DATA_OFF + off + (uint64_t)lo * step, (uint64_t)(hi - lo) * step);
}

static void own_matrix(const struct ig_engine *e, int tid, const struct ig_mat *m, uint64_t slab)
{
    own_share(e, tid, slab + m->off, (int)(m->rows + 15) / 16, m->stride);
}

/* Gate and up panels alternate: the stride of either is that of a pair. */
static void own_block(const struct ig_engine *e, int tid, const struct ig_mat *gate,
                      const struct ig_mat *down, uint64_t slab)
{
    own_matrix(e, tid, gate, slab);
    own_matrix(e, tid, down, slab);
}

static void own_layer(const struct ig_engine *e, int tid, const struct ig_layer *l)
{
    const struct ig_mat *const mats[] = { &l->q,       &l->k,       &l->v,       &l->o,
                                          &l->q_a,     &l->kv_a,    &l->k_b,     &l->v_b,
                                          &l->cross_q, &l->cross_k, &l->cross_v, &l->cross_o,
                                          &l->router };
    for (size_t i = 0; i < sizeof mats / sizeof *mats; i++) own_matrix(e, tid, mats[i], 0);
    own_block(e, tid, &l->dense_gate, &l->dense_down, 0);
    if (IG_TIER != IG_TIER_RAM) return;
    for (uint32_t x = 0; x < l->n_expert; x++)
        own_block(e, tid, &l->gate, &l->down, l->expert_off + x * l->expert_stride);
}

/* A huge page is whole on one node: where a node's part of an expert is little more than one, small
 * pages are nearer to what is wanted. */
static void choose_pages(const struct ig_engine *e)
{
    if (IG_TIER != IG_TIER_RAM || !IG_N_EXPERT) return;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < IG_N_LAYER; i++)
        if (ig_layers[i].n_expert && ig_layers[i].expert_stride < least)
            least = ig_layers[i].expert_stride;
    if (least / (uint64_t)e->team.n_pool < UINT64_C(8) * HUGE_PAGE)
        madvise(e->mem + IG_MEM_DATA_OFF + IG_RESIDENT_BYTES, IG_MEM_DATA_BYTES - IG_RESIDENT_BYTES,
                MADV_NOHUGEPAGE);
}

void ig_place(struct ig_engine *e)
{
    if (e->team.n_pool < 2) return;
    choose_pages(e);
#pragma omp parallel for num_threads(e->team.n) schedule(static, 1)
    for (int tid = 0; tid < e->team.n; tid++) {
        own_matrix(e, tid, &ig_token_embd, 0);
        own_matrix(e, tid, &ig_output, 0);
        for (int i = 0; i < IG_N_LAYER; i++) own_layer(e, tid, &ig_layers[i]);
        own(e->mem + IG_MEM_THREAD_OFF + (uint64_t)tid * IG_THREAD_BYTES, IG_THREAD_BYTES);
    }
}
