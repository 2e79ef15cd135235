"""A LLaMA-type model in plain torch with the names and the configuration that Hugging Face's
libraries have for it. Its vocabulary is bytes, 256 ends a text, three more are never used."""

import torch
from torch import nn
from torch.nn import functional as F

CONFIG = {
    "model_type": "llama",
    "vocab_size": 260,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
_WIDTH, _HEADS, _KV = CONFIG["hidden_size"], CONFIG["num_attention_heads"], 2
_HEAD = _WIDTH // _HEADS


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.2 * torch.randn(_WIDTH))

    def forward(self, x):
        return F.rms_norm(x, (_WIDTH,), self.weight, CONFIG["rms_norm_eps"])


def _turn(x):
    """Halves of each head of [batch, heads, length, head]."""
    half = _HEAD // 2
    steps = torch.arange(half) / half
    angles = torch.arange(x.shape[2])[:, None] * CONFIG["rope_theta"] ** -steps
    first, second = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(_WIDTH, _WIDTH, bias=False)
        self.k_proj = nn.Linear(_WIDTH, _KV * _HEAD, bias=False)
        self.v_proj = nn.Linear(_WIDTH, _KV * _HEAD, bias=False)
        self.o_proj = nn.Linear(_WIDTH, _WIDTH, bias=False)

    def forward(self, x):
        q, k, v = (
            each(x).unflatten(-1, (-1, _HEAD)).transpose(1, 2)
            for each in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(_turn(q), _turn(k), v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(_WIDTH, CONFIG["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(_WIDTH, CONFIG["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(CONFIG["intermediate_size"], _WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = Norm()
        self.self_attn = Attention()
        self.post_attention_layernorm = Norm()
        self.mlp = Mlp()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], _WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = Norm()

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class NamedLlama(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Decoder()
        self.lm_head = nn.Linear(_WIDTH, CONFIG["vocab_size"], bias=False)

    def forward(self, tokens):
        """The loss."""
        logits = self.lm_head(self.model(tokens))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    @torch.no_grad()
    def score(self, tokens):
        """Log-probabilities of a list of tokens from the second on."""
        logits = self.lm_head(self.model(torch.tensor([tokens])))[0, :-1]
        return logits.log_softmax(-1).gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
