#!/usr/bin/env python3
"""Write a Hugging Face folder of any supported family as the GGUF file that the format's converters write.

    family_gguf.py FOLDER OUT.gguf [TYPE]     TYPE: F32 (default), F16, BF16, Q8_0, ...

Tensor names, metadata keys and architectures come from the public `gguf` package, so this
is independent of gen/families; row orders and splits are those of llama.cpp's converter.
Vectors, routers and tensors whose rows do not fit the type's blocks stay F32.  No tokenizer: the file says
"none".  Needs the packages gguf and numpy.
"""

import json
import math
import sys
from pathlib import Path

import gguf
import numpy as np

from make_gguf import permute, read_safetensors

A = gguf.MODEL_ARCH
ARCH = {
    "llama": A.LLAMA, "mixtral": A.LLAMA, "qwen2_moe": A.QWEN2MOE, "qwen3_moe": A.QWEN3MOE, "olmoe": A.OLMOE,
    "granitemoe": A.GRANITE_MOE, "deepseek_v2": A.DEEPSEEK2, "deepseek_v3": A.DEEPSEEK2, "glm4_moe": A.GLM4_MOE,
    "gpt_oss": A.GPT_OSS, "dbrx": A.DBRX, "phimoe": A.PHIMOE,
}  # fmt: skip
PERMUTED = (A.LLAMA, A.GRANITE_MOE)


def add_shape(out, c, arch, layers):
    """What every converter writes, then what each family adds."""
    ffn, attn = c.get("ffn_config", {}), c.get("attn_config", {})
    heads = c.get("num_attention_heads") or c["n_heads"]
    embd = c.get("hidden_size") or c["d_model"]
    head_dim = c.get("head_dim") or embd // heads
    mla = arch == A.DEEPSEEK2
    out.add_block_count(layers)
    out.add_context_length(c.get("max_position_embeddings") or c["max_seq_len"])
    out.add_embedding_length(embd)
    out.add_feed_forward_length(c.get("intermediate_size") or ffn["ffn_hidden_size"])
    out.add_head_count(heads)
    out.add_head_count_kv(1 if mla else c.get("num_key_value_heads") or attn.get("kv_n_heads") or heads)
    out.add_vocab_size(c["vocab_size"])
    out.add_rope_freq_base(float({**attn, **c.get("rope_parameters", {}), **c}["rope_theta"]))
    if arch == A.DBRX:
        out.add_layer_norm_eps(1e-5)
        out.add_clamp_kqv(attn["clip_qkv"])
    else:
        out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    experts = ffn.get("moe_num_experts")
    for key in ("num_local_experts", "num_experts", "n_routed_experts"):
        experts = experts or c.get(key)
    if experts:
        out.add_expert_count(experts)
        out.add_expert_used_count(c.get("num_experts_per_tok") or ffn["moe_top_k"])
    if c.get("head_dim"):
        out.add_key_length(head_dim)
        out.add_value_length(head_dim)
    if "n_group" in c:
        out.add_expert_group_count(c["n_group"])
        out.add_expert_group_used_count(c["topk_group"])
    if arch in PERMUTED or arch == A.PHIMOE:
        out.add_rope_dimension_count(head_dim)
    if arch == A.GLM4_MOE:
        out.add_rope_dimension_count(int(head_dim * c.get("partial_rotary_factor", 0.5)))
    if mla:
        out.add_rope_dimension_count(c["qk_rope_head_dim"])
        out.add_kv_lora_rank(c["kv_lora_rank"])
        if c.get("q_lora_rank"):
            out.add_q_lora_rank(c["q_lora_rank"])
        out.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
        out.add_value_length(c["kv_lora_rank"])
        out.add_key_length_mla(c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
        out.add_value_length_mla(c["v_head_dim"])
    return experts


def add_routing(out, c, arch):
    T = gguf.ExpertGatingFuncType
    if arch == A.GLM4_MOE or c.get("scoring_func"):
        out.add_expert_gating_func(T.SOFTMAX if c.get("scoring_func") == "softmax" else T.SIGMOID)
    for key, add in (
        ("moe_intermediate_size", out.add_expert_feed_forward_length),
        ("shared_expert_intermediate_size", out.add_expert_shared_feed_forward_length),
        ("n_shared_experts", out.add_expert_shared_count),
        ("first_k_dense_replace", out.add_leading_dense_block_count),
        ("routed_scaling_factor", out.add_expert_weights_scale),
        ("attention_multiplier", out.add_attention_scale),
        ("embedding_multiplier", out.add_embedding_scale),
        ("residual_multiplier", out.add_residual_scale),
        ("logits_scaling", out.add_logit_scale),
    ):
        if c.get(key) is not None:
            add(c[key])
    if arch == A.GLM4_MOE or arch == A.DEEPSEEK2 and c.get("norm_topk_prob"):
        out.add_expert_weights_norm(c["norm_topk_prob"])
    if arch == A.GPT_OSS:
        out.add_sliding_window(c["sliding_window"])
        out.add_expert_feed_forward_length(c["intermediate_size"])
    if arch == A.PHIMOE:
        out.add_sliding_window(c.get("sliding_window") or 0)


def add_rope(out, c, arch):
    """Keys of a stretched rotation; returns the tensors of factors that some kinds have."""
    r = c.get("rope_scaling") or c.get("rope_parameters") or {}
    kind = r.get("rope_type", r.get("type", "default"))
    name = gguf.TENSOR_NAMES
    if kind == "yarn":
        out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        out.add_rope_scaling_factor(r["factor"])
        out.add_rope_scaling_orig_ctx_len(r["original_max_position_embeddings"])
        out.add_rope_scaling_yarn_beta_fast(r["beta_fast"])
        out.add_rope_scaling_yarn_beta_slow(r["beta_slow"])
        if arch == A.DEEPSEEK2:
            out.add_rope_scaling_yarn_log_mul(0.1 * r["mscale_all_dim"])
    elif kind == "linear":
        out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        out.add_rope_scaling_factor(r["factor"])
    elif kind == "longrope":
        orig = r["original_max_position_embeddings"]
        stretch = c["max_position_embeddings"] / orig
        out.add_rope_scaling_orig_ctx_len(orig)
        out.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretch) / math.log(orig)) if stretch > 1 else 1.0)
        return {
            name[gguf.MODEL_TENSOR.ROPE_FACTORS_LONG]: r["long_factor"],
            name[gguf.MODEL_TENSOR.ROPE_FACTORS_SHORT]: r["short_factor"],
        }
    elif kind == "llama3":
        return {name[gguf.MODEL_TENSOR.ROPE_FREQS]: llama3_factors(c, r)}
    return {}


def llama3_factors(c, r):
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    low, high, factor = r["low_freq_factor"], r["high_freq_factor"], r["factor"]
    out = []
    for i in range(0, dim, 2):
        turns = r["original_max_position_embeddings"] * c["rope_theta"] ** (-i / dim) / (2 * math.pi)
        smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
        out.append(1 / ((1 - smooth) / factor + smooth))
    return out


def stacked(weights):
    """Tensors of one expert each -> one of all, under the name without the number."""
    out, experts = {}, {}
    for name, w in weights.items():
        before, found, after = name.partition(".experts.")
        number = after.partition(".")[0]
        if found and number.isdigit():
            experts.setdefault(f"{before}.experts.{after.partition('.')[2]}", {})[int(number)] = w
        else:
            out[name] = w
    for name, each in experts.items():
        out[name] = np.stack([each[e] for e in range(len(each))])
    return out


def pieces(name, w, c, arch):
    """A tensor as the converter splits, turns and renames it; names are still the checkpoint's."""
    stem = name.rpartition(".")[0]
    if arch in PERMUTED and name.endswith(("q_proj.weight", "k_proj.weight")):
        heads = c["num_attention_heads"]
        yield name, permute(w, heads if "q_proj" in name else c.get("num_key_value_heads", heads))
    elif name.endswith("kv_b_proj.weight"):
        each = w.reshape(c["num_attention_heads"], c["qk_nope_head_dim"] + c["v_head_dim"], -1)
        yield name.replace("kv_b", "k_b"), each[:, : c["qk_nope_head_dim"]].swapaxes(1, 2)
        yield name.replace("kv_b", "v_b"), each[:, c["qk_nope_head_dim"] :]
    elif name.endswith("block_sparse_moe.input_linear.weight"):
        half = c["intermediate_size"]
        yield f"{stem}.gate", w[:, :half]
        yield f"{stem}.up", w[:, half:]
    elif name.endswith("experts.gate_up_proj"):  # gpt-oss: on its side, gate and up alternate
        turned = w.swapaxes(1, 2)
        yield f"{stem}.gate_proj.weight", turned[:, ::2]
        yield f"{stem}.up_proj.weight", turned[:, 1::2]
    elif name.endswith("experts.gate_up_proj_bias"):
        yield f"{stem}.gate_proj.bias", w[:, ::2]
        yield f"{stem}.up_proj.bias", w[:, 1::2]
    elif name.endswith("experts.down_proj"):
        yield f"{name}.weight", w.swapaxes(1, 2)
    elif name.endswith("experts.down_proj_bias"):
        yield f"{stem}.down_proj.bias", w
    elif ".ffn.experts.mlp." in name:
        ffn = c["ffn_config"]
        each = w.reshape(ffn["moe_num_experts"], ffn["ffn_hidden_size"], c["d_model"])
        yield f"{name}.weight", each.swapaxes(1, 2) if name.endswith("w2") else each
    elif name.endswith("sinks"):
        yield f"{name}.weight", w
    elif name.endswith("e_score_correction_bias"):
        yield f"{stem}.e_score_correction.bias", w
    else:
        yield name, w


def gguf_name(names, name):
    if name.endswith("input_linear.gate"):
        block = int(name.split(".")[2])
        return gguf.TENSOR_NAMES[gguf.MODEL_TENSOR.FFN_GATE_EXP].format(bid=block) + ".weight"
    if name.endswith("input_linear.up"):
        block = int(name.split(".")[2])
        return gguf.TENSOR_NAMES[gguf.MODEL_TENSOR.FFN_UP_EXP].format(bid=block) + ".weight"
    # Mixtral's merged experts are known under the name that the converter gives them.
    for key in (name, name.replace("model.layers", "layers").replace("block_sparse_moe", "feed_forward")):
        found = names.get_name(key=key, try_suffixes=(".weight", ".bias"))
        if found:
            return found
    sys.exit(f"{name}: the gguf package has no name for it")


def add_tensors(out, weights, c, arch, layers, kind):
    names = gguf.get_tensor_name_map(arch, layers)
    f32 = gguf.GGMLQuantizationType.F32
    for name, w in stacked(weights).items():
        for part, values in pieces(name, w, c, arch):
            new = gguf_name(names, part)
            values = np.ascontiguousarray(np.squeeze(values), dtype=np.float32)
            block = gguf.GGML_QUANT_SIZES[kind][0]
            fits = values.ndim > 1 and not new.endswith((".bias", "ffn_gate_inp.weight"))
            fits = fits and values.shape[-1] % block == 0
            out.add_tensor(new, gguf.quants.quantize(values, kind if fits else f32), raw_dtype=kind if fits else f32)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    folder, kind = Path(sys.argv[1]), gguf.GGMLQuantizationType[(sys.argv + ["F32"])[3]]
    c = json.loads((folder / "config.json").read_text())
    arch = ARCH[c["model_type"]]
    layers = c.get("num_hidden_layers") or c["n_layers"]
    out = gguf.GGUFWriter(sys.argv[2], gguf.MODEL_ARCH_NAMES[arch])
    out.add_name(folder.name)
    add_shape(out, c, arch, layers)
    add_routing(out, c, arch)
    factors = add_rope(out, c, arch)
    out.add_tokenizer_model("none")
    for name, values in factors.items():
        out.add_tensor(f"{name}.weight", np.array(values, dtype=np.float32))
    add_tensors(out, read_safetensors(folder)[0], c, arch, layers, kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
