#!/usr/bin/env python3
"""Make the GGUF files of tests/data from Mixtral folders in Hugging Face layout.

    make_gguf.py FOLDER OUT.gguf              tiny-mixtral.gguf
    make_gguf.py FOLDER OUT.gguf --lossless   mixtral-f32.gguf, mixtral-bf16.gguf

Experts in Q4_0, norms and the router in F32, everything else in Q8_0, or with
--lossless every matrix in the folder's own type; rows of q and k permuted for
interleaved rotation, as files of the llama architecture have them; the whole
tokenizer, if there is one, in the metadata.  Needs the public packages gguf and
numpy; the files are committed, so this runs only when a model changes.
"""

import json
import struct
import sys
from pathlib import Path

import gguf
import numpy as np


def read_safetensors(folder):
    """name -> float32 array, and the files' one type; BF16 is the upper half of a float32."""
    tensors, kind = {}, None
    for path in sorted(folder.glob("model*.safetensors")):
        raw = path.read_bytes()
        (length,) = struct.unpack_from("<Q", raw)
        for name, info in json.loads(raw[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            if info["dtype"] not in ("BF16", "F32") or kind not in (None, info["dtype"]):
                sys.exit(f"{path}: {name}: want BF16 or F32 throughout, got {info['dtype']}")
            kind = info["dtype"]
            begin, end = info["data_offsets"]
            data = raw[8 + length + begin : 8 + length + end]
            if kind == "BF16":
                full = (np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
            else:
                full = np.frombuffer(data, dtype="<f4")
            tensors[name] = full.reshape(info["shape"])
    return tensors, kind


def permute(rows, n_head):
    """Halves of a head side by side -> pairs side by side."""
    split = rows.reshape(n_head, 2, rows.shape[0] // n_head // 2, rows.shape[1])
    return split.swapaxes(1, 2).reshape(rows.shape)


def add_model(out, config):
    out.add_name("tiny-mixtral")
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    out.add_rope_freq_base(config["rope_theta"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_expert_count(config["num_local_experts"])
    out.add_expert_used_count(config["num_experts_per_tok"])
    out.add_vocab_size(config["vocab_size"])


def add_tokenizer(out, folder, n_vocab):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    ids = dict(tokenizer["model"]["vocab"])
    special = {t["content"] for t in tokenizer["added_tokens"] if t["special"]}
    ids.update({t["content"]: t["id"] for t in tokenizer["added_tokens"]})
    texts = [f"[PAD{i}]" for i in range(n_vocab)]
    types = [gguf.TokenType.UNUSED] * n_vocab
    for text, i in ids.items():
        texts[i] = text
        types[i] = gguf.TokenType.CONTROL if text in special else gguf.TokenType.NORMAL
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]

    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("llama-bpe")
    out.add_token_list(texts)
    out.add_token_types(types)
    out.add_token_merges(merges)
    out.add_bos_token_id(ids[settings["bos_token"]])
    out.add_eos_token_id(ids[settings["eos_token"]])
    out.add_eot_token_id(ids["<|end|>"])
    out.add_add_bos_token(True)
    out.add_add_eos_token(False)
    out.add_chat_template(settings["chat_template"])


def add_tensors(out, weights, config, expert_kind, other_kind):
    def add(name, array, kind):
        array = np.ascontiguousarray(array, dtype=np.float32)
        out.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)

    f32 = gguf.GGMLQuantizationType.F32
    other, expert = gguf.GGMLQuantizationType[other_kind], gguf.GGMLQuantizationType[expert_kind]
    add("token_embd.weight", weights["model.embed_tokens.weight"], other)
    for layer in range(config["num_hidden_layers"]):
        old, new = f"model.layers.{layer}.", f"blk.{layer}."
        q = weights[old + "self_attn.q_proj.weight"]
        k = weights[old + "self_attn.k_proj.weight"]
        add(new + "attn_norm.weight", weights[old + "input_layernorm.weight"], f32)
        add(new + "attn_q.weight", permute(q, config["num_attention_heads"]), other)
        add(new + "attn_k.weight", permute(k, config["num_key_value_heads"]), other)
        add(new + "attn_v.weight", weights[old + "self_attn.v_proj.weight"], other)
        add(new + "attn_output.weight", weights[old + "self_attn.o_proj.weight"], other)
        add(new + "ffn_norm.weight", weights[old + "post_attention_layernorm.weight"], f32)
        add(new + "ffn_gate_inp.weight", weights[old + "block_sparse_moe.gate.weight"], f32)
        for part, w in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
            experts = [
                weights[f"{old}block_sparse_moe.experts.{e}.{w}.weight"]
                for e in range(config["num_local_experts"])
            ]
            add(f"{new}ffn_{part}_exps.weight", np.stack(experts), expert)
    add("output_norm.weight", weights["model.norm.weight"], f32)
    add("output.weight", weights["lm_head.weight"], other)


def main():
    lossless = sys.argv[3:] == ["--lossless"]
    if len(sys.argv) != 3 + lossless:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text())
    weights, kind = read_safetensors(folder)
    kinds = (kind, kind) if lossless else ("Q4_0", "Q8_0")
    out = gguf.GGUFWriter(sys.argv[2], "llama")
    add_model(out, config)
    if not lossless:
        out.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    if (folder / "tokenizer.json").exists():
        add_tokenizer(out, folder, config["vocab_size"])
    add_tensors(out, weights, config, *kinds)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
