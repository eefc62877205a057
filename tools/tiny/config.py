"""config.json of the bundled checkpoint (model.md 3 and 15).

python config.py TINY_DIR      writes TINY_DIR/config.json for TINY_DIR/tokenizer.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from model import Config, engram_primes
from tokenizer import IMAGE_TOKEN, NOISE_TOKEN, compressed_vocabulary
from tokenizers import Tokenizer


def build(tokenizer: Tokenizer) -> dict[str, Any]:
    text: dict[str, Any] = {
        "model_type": "deepseek_v41_text",
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 128,
        "qk_rope_head_dim": 32,
        "q_lora_rank": 128,
        "o_groups": 2,
        "o_lora_rank": 64,
        "hidden_act": "silu",
        "swiglu_limit": 10.0,
        "rms_norm_eps": 1e-20,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "max_position_embeddings": 8192,
        "rope_theta": 10000.0,
        "compress_rope_theta": 160000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4,
            "beta_fast": 32,
            "beta_slow": 1,
            "original_max_position_embeddings": 2048,
        },
        "sliding_window": 64,
        # 0 window; 1 window + Engram; 2 C2 source; 3 reuse of 2; 4 second C2 source + Engram;
        # 5 C1 source, publishes candidate blocks; 6 reindex inside them; 7 reuse of 6.
        "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 0, 0],
        "kv_source_layer_ids": [2, 4, 5],
        "index_source_layer_ids": [2, 4, 5, 6],
        "index_n_heads": 8,
        "index_head_dim": 64,
        "index_topk": 64,
        "candidate_source_layer_id": 5,
        "candidate_topk_blocks": 32,
        "candidate_block_size": 8,
        "hc_mult": 4,
        "hc_sinkhorn_iters": 20,
        "hc_eps": 1e-6,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 128,
        "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc",
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.5,
        "engram_layer_ids": [1, 4],
        "engram_vocab_size": 1009,
        "engram_num_embeddings": [],
        "engram_max_ngram_size": 4,
        "engram_n_heads": 2,
        "engram_head_dim": 32,
        "engram_pad_token_id": 2,
        "engram_compressed_vocab_size": int(compressed_vocabulary(tokenizer).max()) + 1,
        "num_nextn_predict_layers": 2,
        "dspark_block_size": 5,
        "dspark_noise_token_id": tokenizer.token_to_id(NOISE_TOKEN),
        "dspark_target_layer_ids": [5, 6, 7],
        "dspark_markov_rank": 32,
        "dspark_n_routed_experts": 4,
        "dspark_num_experts_per_tok": 2,
        "initializer_range": 0.02,
        "use_cache": True,
    }
    known = {k: v for k, v in text.items() if k in Config.__dataclass_fields__}
    text["engram_num_embeddings"] = [sum(p) for p in engram_primes(Config(**known))]
    return {
        "architectures": ["DeepseekV41ForCausalLM"],
        "model_type": "deepseek_v41",
        "dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "image_token_id": tokenizer.token_to_id(IMAGE_TOKEN),
        "tie_word_embeddings": False,
        "tokenizer_compatibility": "native",
        "quantization_config": {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "weight_block_size": [32, 32],
            "scale_fmt": "ue8m0",
            "expert_dtype": "fp4",
        },
        "text_config": text,
        "vision_config": {
            "model_type": "deepseek_v41_vision",
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "patch_size": 14,
            "downsample_ratio": 3,
            "rope_theta": 10000.0,
            "max_image_tokens": 64,
            "min_pixels": 7056,
            "max_wh_ratio": None,
        },
    }


def main() -> None:
    folder = Path(sys.argv[1])
    config = build(Tokenizer.from_file(str(folder / "tokenizer.json")))
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
