"""Tiny Hugging Face models with random weights, and batches for them."""

import torch
import transformers

VOCABULARY, LENGTH, BATCH = 37, 8, 2

_WIDTH = 16
_LLAMA = {
    "vocab_size": VOCABULARY,
    "hidden_size": _WIDTH,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def llama(**changes):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_LLAMA | changes))


def _qwen2():
    return transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(**_LLAMA, tie_word_embeddings=True)
    )


def _gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=_WIDTH,
            n_layer=2,
            n_head=2,
            n_positions=64,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def _opt():
    return transformers.OPTForCausalLM(
        transformers.OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=_WIDTH,
            word_embed_proj_dim=_WIDTH,
            ffn_dim=40,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            dropout=0.0,
            pad_token_id=0,
        )
    )


def _bert():
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=_WIDTH,
            intermediate_size=40,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def _t5():
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=VOCABULARY,
            d_model=_WIDTH,
            d_kv=8,
            d_ff=40,
            num_layers=2,
            num_heads=2,
            dropout_rate=0.0,
            decoder_start_token_id=0,
            pad_token_id=0,
        )
    )


# name: (model, the class of its blocks, names of tensors that are one)
CASES = {
    "llama": (llama, "LlamaDecoderLayer", ()),
    "qwen2": (_qwen2, "Qwen2DecoderLayer", ("lm_head.weight", "model.embed_tokens.weight")),
    "gpt2": (_gpt2, "GPT2Block", ("lm_head.weight", "transformer.wte.weight")),
    "opt": (_opt, "OPTDecoderLayer", ("lm_head.weight", "model.decoder.embed_tokens.weight")),
    "bert": (
        _bert,
        "BertLayer",
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    ),
    "t5": (_t5, "T5Block", ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")),
}


def batch(step, rank):
    """Tokens as inputs and as labels, some of them without a label."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    tokens = torch.randint(3, VOCABULARY, (BATCH, LENGTH), generator=generator)
    labels = tokens.clone()
    labels[0, : 1 + step % 3] = -100
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}
