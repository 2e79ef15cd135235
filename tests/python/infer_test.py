#!/usr/bin/env python3
"""thinwire.infer: what it takes and gives, its errors, threads, interrupts."""

import gc
import itertools
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import thinwire.infer

_MAKE_TINY = sys.argv.pop(1)
_FIXED = {"temperature": 3, "top_k": 0, "seed": 3, "max_tokens": 24}
_FOLDER = tempfile.TemporaryDirectory()
_TINY = Path(_FOLDER.name, "tiny.gguf")  # random weights; <s>, </s>, and letters
subprocess.run([_MAKE_TINY, _TINY, "2", "64", "4096"], check=True)


def load(**options):
    return thinwire.infer.load(_TINY, threads=2, context=512, **options)


class AnswersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = load(sequences=4)

    def test_texts_tokens_and_messages_are_prompts(self):
        answer = self.model.generate("abc", **_FIXED)
        self.assertEqual(len(answer.tokens), 24)
        self.assertEqual(answer.finish, "length")
        self.assertEqual(answer.text, self.model.detokenize(answer.tokens))
        self.assertEqual(str(answer), answer.text)
        self.assertIsNone(answer.logprobs)
        tokens = self.model.tokenize("abc")
        self.assertEqual(self.model.generate(tokens, **_FIXED), answer)
        self.assertEqual(self.model.generate(tuple(tokens), **_FIXED), answer)
        # The template is "<s>" + content + "</s>" + "<s>".
        messages = [{"role": "user", "content": "abc"}]
        chat = self.model.generate(messages, **_FIXED)
        self.assertEqual(chat, self.model.generate([0, *tokens, 1, 0], **_FIXED))
        self.assertEqual(chat, self.model.chat("abc", **_FIXED))

    def test_a_list_is_answered_side_by_side_with_the_same_answers(self):
        prompts = ["abc", [7, 8, 9], "hello", [{"role": "user", "content": "z"}], "q", "abc"]
        alone = [
            self.model.generate(each, **_FIXED | {"seed": 3 + i}) for i, each in enumerate(prompts)
        ]
        together = self.model.generate(prompts, **_FIXED)
        self.assertEqual([a.tokens for a in together], [a.tokens for a in alone])
        self.assertEqual(self.model.generate([]), [])

    def test_keys_and_values_as_they_are_take_twice_the_room(self):
        model = load(sequences=4, kv_type="f32")
        room = 2 * 4 * 512 * 64 * 2  # of f16: layers, positions, elements of both, bytes
        self.assertEqual(model.memory["run"] - self.model.memory["run"], room)
        answer = self.model.generate("abc", **_FIXED)
        self.assertEqual(len(model.generate("abc", **_FIXED).tokens), len(answer.tokens))

    def test_a_seed_is_an_answer(self):
        def draw(prompt, seed):
            return self.model.generate(prompt, temperature=2, top_k=0, max_tokens=20, seed=seed)

        self.assertEqual(draw("abc", 5), draw("abc", 5))
        self.assertNotEqual(draw("abc", 5), draw("abc", 6))
        self.assertNotEqual(draw("abc", None), draw("abc", None))
        five, six = draw(["abc", "abc"], 5)
        self.assertEqual([five.tokens, six.tokens], [draw("abc", s).tokens for s in (5, 6)])

    def test_what_ends_an_answer(self):
        whole = self.model.generate("abc", **_FIXED)
        stop = whole.text[10:12]
        self.assertEqual(whole.text.index(stop), 10)
        short = self.model.generate("abc", stop=stop, **_FIXED)
        self.assertEqual(short.finish, "stop")
        self.assertEqual(short.text, whole.text[: whole.text.index(stop)])
        self.assertEqual(self.model.generate("abc", stop=["?", stop], **_FIXED), short)
        ended = self.model.generate("abc", logit_bias={1: 1000.0}, logprobs=True, **_FIXED)
        self.assertEqual(ended, thinwire.infer.Answer("", [], [], "end"))

    def test_guesses_change_nothing(self):
        options = {"temperature": 0, "max_tokens": 100}
        prompt = "abcabcabc"
        guessed = self.model.generate(prompt, guesses=4, **options)
        self.assertEqual(guessed, self.model.generate(prompt, **options))

    def test_a_draft_changes_nothing(self):
        draft = Path(_FOLDER.name, "draft.gguf")
        subprocess.run([_MAKE_TINY, draft, "1", "64", "4096"], check=True)
        options = {"temperature": 0, "max_tokens": 50}
        drafted = load(draft=draft).generate("hello", guesses=4, **options)
        self.assertEqual(drafted, self.model.generate("hello", **options))
        with self.assertRaisesRegex(OSError, "nowhere"):
            load(draft="/nowhere/draft.gguf")

    def test_answers_have_the_form_asked_for(self):
        for answer in self.model.generate(["ab", "abc"], grammar='root ::= "no" [x-z]{3} | "yes"'):
            self.assertRegex(answer.text, "^(no[x-z]{3}|yes)$")
            self.assertEqual(answer.finish, "end")
        schema = {"enum": [None, True]}
        for form in (schema, '{"enum": [null, true]}'):
            self.assertIn(self.model.generate("ab", json_schema=form).text, ["null", "true"])
        wrong = {
            "column 10": {"grammar": "root ::= ["},
            "#/not": {"json_schema": {"not": {}}},
            "one form": {"grammar": "", "json_schema": {}},
            "no token": {"json_schema": {"type": "object"}},  # this model has no brackets
        }
        for error, options in wrong.items():
            with self.assertRaisesRegex(ValueError, error):
                self.model.generate("ab", **options)
        self.assertEqual(len(self.model.generate("abc", **_FIXED).tokens), 24)

    def test_scores_are_those_of_the_answer(self):
        prompt = self.model.tokenize("hello")
        answer = self.model.generate(prompt, logprobs=True, temperature=1, max_tokens=20, seed=1)
        scores = self.model.score(prompt + answer.tokens)
        self.assertEqual(len(scores), len(prompt) + len(answer.tokens) - 1)
        for score, logprob in zip(scores[len(prompt) - 1 :], answer.logprobs, strict=True):
            self.assertAlmostEqual(score, logprob, delta=2e-2)
        both = self.model.score([prompt, prompt + answer.tokens])
        self.assertEqual([len(each) for each in both], [len(prompt) - 1, len(scores)])

    def test_embeddings_have_length_one(self):
        one, same, other = self.model.embed(["abc", self.model.tokenize("abc"), "xyz"])
        self.assertAlmostEqual(math.hypot(*one), 1, places=5)
        self.assertLess(math.dist(one, same), 1e-5)
        self.assertGreater(math.dist(one, other), 1e-2)
        self.assertLess(math.dist(one, self.model.embed("abc")), 1e-5)

    def test_tokens_and_back(self):
        self.assertEqual(self.model.tokenize("a b</s>"), [4, 2, 5, 1])
        self.assertEqual(self.model.detokenize([4, 2, 5, 1]), "a b")
        self.assertEqual(self.model.detokenize([4, 1], skip_special=False), "a</s>")

    def test_it_says_what_it_is(self):
        self.assertEqual((self.model.architecture, self.model.vocabulary), ("llama", 50))
        self.assertEqual((self.model.context, self.model.threads), (512, 2))
        self.assertGreater(self.model.memory["weights"], 100_000)
        self.assertGreater(self.model.memory["run"], self.model.memory["weights"])


class StreamsTest(unittest.TestCase):
    def test_pieces_are_the_answer_and_streams_share_the_model(self):
        model = load(sequences=2)
        prompts = ["abc", "hello"]
        expected = [model.generate(each, logprobs=True, **_FIXED) for each in prompts]
        self.assertNotEqual(expected[0], expected[1])
        streams = [model.generate(p, stream=True, logprobs=True, **_FIXED) for p in prompts]
        texts = ["", ""]
        for first, second in itertools.zip_longest(*streams, fillvalue=""):
            texts = [texts[0] + first, texts[1] + second]
        self.assertEqual(texts, [each.text for each in expected])
        self.assertEqual([each.answer.tokens for each in streams], [e.tokens for e in expected])

    def test_what_is_closed_or_dropped_leaves_its_place(self):
        model = load(sequences=1)
        stream = model.generate("abc", stream=True, max_tokens=400)
        next(stream)
        with self.assertRaisesRegex(ValueError, "has not come to its end"):
            _ = stream.answer
        stream.close()
        self.assertEqual(list(stream), [])
        stream = model.generate("abc", stream=True, max_tokens=400)
        next(stream)
        del stream
        self.assertEqual(len(model.generate("abc", **_FIXED).tokens), 24)

    def test_a_stream_outlives_the_name_of_its_model(self):
        model = load()
        stream = model.generate("abc", stream=True, **_FIXED)
        expected = load().generate("abc", **_FIXED).text
        del model
        gc.collect()
        self.assertEqual("".join(stream), expected)


class ThreadsTest(unittest.TestCase):
    def test_threads_share_a_model(self):
        model = load(sequences=2)
        prompts = ["abc", "hello", "xyz"]
        expected = [model.generate(each, **_FIXED).tokens for each in prompts]
        found = [[] for _ in prompts]

        def ask(index):
            for _ in range(8):
                found[index].append(model.generate(prompts[index], **_FIXED).tokens)

        threads = [threading.Thread(target=ask, args=[i]) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [[each] * 8 for each in expected])

    def test_an_interrupt_ends_the_call_and_not_the_model(self):
        model = load(sequences=1)
        before = model.generate("abc", **_FIXED)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(KeyboardInterrupt):
            while True:
                model.generate("abc", temperature=0, max_tokens=500)
        self.assertEqual(model.generate("abc", **_FIXED), before)

    def test_a_forked_process_gets_an_error_rather_than_a_hang(self):
        model = load()
        child = os.fork()
        if child == 0:
            try:
                model.generate("abc")
            except ValueError as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class ErrorsTest(unittest.TestCase):
    def test_bad_files(self):
        with self.assertRaisesRegex(OSError, "none.gguf"):
            thinwire.infer.load("/none.gguf")
        with self.assertRaisesRegex(ValueError, "infer_test.py"):
            thinwire.infer.load(__file__)
        with self.assertRaisesRegex(ValueError, "context"):
            thinwire.infer.load(_TINY, context=1)
        with self.assertRaisesRegex(ValueError, "keys and values"):
            thinwire.infer.load(_TINY, kv_type="q4_0")

    def test_bad_requests(self):
        model = load(sequences=1)
        for prompt in ("", [], [50], [-1], [1] * 512):
            with self.assertRaisesRegex(ValueError, "prompt"):
                model.generate([prompt] if prompt == [] else prompt)
        for prompt in (3, None, {"role": "user"}, [1, "a"]):
            with self.assertRaisesRegex(ValueError, "prompt: expected"):
                model.generate(prompt)
        with self.assertRaisesRegex(ValueError, "messages: expected"):
            model.chat([{"role": "user"}])
        with self.assertRaisesRegex(ValueError, "one prompt"):
            model.generate(["a", "b"], stream=True)
        for option in ({"temperature": -1}, {"top_p": 2}, {"max_tokens": 0}, {"stop": ""}):
            with self.assertRaisesRegex(ValueError, next(iter(option)).replace("max", "most")):
                model.generate("a", **option)
        with self.assertRaises(TypeError):
            model.generate("a", temprature=1)
        with self.assertRaisesRegex(ValueError, "tokens: 50"):
            model.detokenize([50])

    def test_it_needs_no_torch(self):
        code = "import sys; import thinwire.infer; assert 'torch' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
