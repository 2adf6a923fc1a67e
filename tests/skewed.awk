# A route trace of 32 tokens, 3 layers, 2 of 8 experts, in which the experts that layer l uses most are not its first ones.
BEGIN {
    print "# route_trace v1"
    print "# model=skewed arch=mixtral n_layer=3 n_expert=8 n_expert_used=2"
    print "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes"
    for (step = 0; step < 32; step++)
        for (l = 0; l < 3; l++) {
            x = (7 - l - int(step * step / 3) % (2 + 2 * l) + 8) % 8
            y = (x + 1 + step * (l + 3) % 5) % 8
            printf "0,1,%d,%d,0,%d,0.6,0,0\n0,1,%d,%d,1,%d,0.4,0,0\n", step, l, x, step, l, y
        }
}
