"""Makes a random Qwen2 model, a tokenizer, and a data set of sums in verl's format.

    make_model.py FOLDER VOCABULARY HIDDEN LAYERS
"""

import os
import random
import sys

import pandas
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

ROWS = {"train": 256, "test": 16}
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHANCE = random.Random(0)


def question():
    first, second = CHANCE.randint(2, 99), CHANCE.randint(2, 99)
    asked = f"A shop sold {first} boxes in April, and then {second} more in May. How many boxes did it sell? Answer after ####."
    return asked, str(first + second)


def tokenizer():
    made = Tokenizer(models.BPE(unk_token=None))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=special, initial_alphabet=letters, show_progress=False)
    made.train_from_iterator([question()[0] for _ in range(1000)], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = CHAT
    return fast


def main(folder, vocabulary, hidden, layers):
    words = tokenizer()
    torch.manual_seed(0)
    # The embeddings are tied, because otherwise FSDP's set-up fails on CPUs.
    shape = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    words.save_pretrained(f"{folder}/model")
    Qwen2ForCausalLM(shape).to(torch.bfloat16).save_pretrained(f"{folder}/model")
    for split, count in ROWS.items():
        rows = []
        for index in range(count):
            asked, answer = question()
            rows.append(
                {
                    "data_source": "openai/gsm8k",
                    "prompt": [{"role": "user", "content": asked}],
                    "ability": "math",
                    "reward_model": {"style": "rule", "ground_truth": answer},
                    "extra_info": {"split": split, "index": index},
                }
            )
        pandas.DataFrame(rows).to_parquet(f"{folder}/{split}.parquet")


os.makedirs(sys.argv[1], exist_ok=True)
main(sys.argv[1], *map(int, sys.argv[2:5]))
