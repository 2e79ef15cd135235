"""`thinwire serve`, over HTTP as its clients use it.

    serve_test.py BINARY TINY_MODEL

BINARY is `thinwire`, TINY_MODEL writes a model with random weights whose tokens are single letters.
The page is tried in a real browser where `chromedriver` is installed.
"""

import concurrent.futures
import contextlib
import functools
import http.client
import json
import math
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

BINARY, TINY_MODEL = "", ""
NO_END = {"1": -100}  # token 1 ends an answer


class Server:
    """A running `thinwire serve` with the model at `path`."""

    def __init__(self, path, *options, port=0):
        options = ["--port", port, "--threads", 1, *options]
        command = [BINARY, "serve", str(path), *map(str, options)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if "http://" not in line:
            self.process.wait()
            self.process.stderr.close()
            raise RuntimeError(line)
        self.port = int(line.rsplit(":", 1)[1])

    def close(self):
        """Ends it as Ctrl-C does; its exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=30)
        self.process.stderr.close()
        return code

    def get(self, path, headers=None):
        return self._open(urllib.request.Request(self.url(path), headers=headers or {}))

    def post(self, path, body, headers=None):
        """(status, parsed body)"""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | (headers or {})
        status, text = self._open(urllib.request.Request(self.url(path), data, headers))
        return status, json.loads(text)

    def metric(self, name):
        lines = self.get("/metrics")[1].splitlines()
        return float(
            next(line for line in lines if line.startswith(f"thinwire_{name} ")).split()[1]
        )

    def wait_for(self, name, value, limit_s=20):
        end = time.monotonic() + limit_s
        while self.metric(name) != value:
            if time.monotonic() > end:
                raise AssertionError(f"{name} is {self.metric(name)}, not {value}")
            time.sleep(0.02)

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    @staticmethod
    def _open(request):
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def events(server, path, body):
    """The events of a stream, the last being "[DONE]"."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        text = connection.getresponse().read().decode()
    parts = [part.removeprefix("data: ") for part in text.split("\n\n") if part]
    return [part if part == "[DONE]" else json.loads(part) for part in parts]


@functools.cache
def shared():
    """What all tests use: (a server of the small model, that model, a larger one)."""
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    small, large = Path(folder.name, "small.gguf"), Path(folder.name, "large.gguf")
    subprocess.run([TINY_MODEL, small, "2", "64", "128"], check=True)
    # Some thousand tokens a second: an answer that fills its context takes seconds.
    subprocess.run([TINY_MODEL, large, "4", "256", "60000"], check=True)
    server = Server(small, "--context", 128)
    unittest.addModuleCleanup(server.close)
    return server, small, large


class ServeTest(unittest.TestCase):
    def setUp(self):
        self.server, self.small, self.large = shared()


class AnswerTest(ServeTest):
    def test_a_completion_has_what_was_asked_for(self):
        body = {"prompt": "ab", "max_tokens": 7, "seed": 3, "logit_bias": NO_END, "logprobs": 1}
        status, reply = self.server.post("/v1/completions", body)
        self.assertEqual(status, 200)
        choice = reply["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")
        usage = {"prompt_tokens": 2, "completion_tokens": 7, "total_tokens": 9}
        self.assertEqual(reply["usage"], usage)
        self.assertEqual("".join(choice["logprobs"]["tokens"]), choice["text"])
        self.assertTrue(all(value < 0 for value in choice["logprobs"]["token_logprobs"]))
        self.assertEqual(self.server.post("/v1/completions", body)[1]["choices"][0], choice)

    def test_the_likeliest_tokens_are_told(self):
        body = {"prompt": "ab", "max_tokens": 5, "temperature": 0, "logprobs": 3}
        told = self.server.post("/v1/completions", body | {"logit_bias": NO_END})[1]
        told = told["choices"][0]["logprobs"]
        columns = told["tokens"], told["token_logprobs"], told["top_logprobs"]
        for token, value, top in zip(*columns, strict=True):
            self.assertLessEqual(len(top), 3)
            if token in top:
                self.assertEqual(top[token], value)
            self.assertEqual(sorted(top.values(), reverse=True), list(top.values()))
        chat = {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 5, "seed": 1}
        chat |= {"logprobs": True, "top_logprobs": 20}
        for entry in self.server.post("/v1/chat/completions", chat)[1]["choices"][0]["logprobs"][
            "content"
        ]:
            values = [top["logprob"] for top in entry["top_logprobs"]]
            self.assertEqual(len(values), 20)
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLess(sum(map(math.exp, values)), 1.0001)
            self.assertGreaterEqual(values[0], entry["logprob"])
            self.assertEqual(set(entry["top_logprobs"][0]), {"token", "logprob", "bytes"})

    def test_answers_have_the_form_asked_for(self):
        body = {"prompt": "ab", "max_tokens": 50, "grammar": 'root ::= "no" [x-z]{3} " " | "yes"'}
        for seed in range(5):
            choice = self.server.post("/v1/completions", body | {"seed": seed})[1]["choices"][0]
            self.assertRegex(choice["text"], "^(no[x-z]{3} |yes)$")
            self.assertEqual(choice["finish_reason"], "stop")
        schema = {"enum": [None, True, False]}
        chat = {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 50}
        chat["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        for seed in range(5):
            body = chat | {"seed": seed, "logprobs": True}
            choice = self.server.post("/v1/chat/completions", body)[1]["choices"][0]
            self.assertIn(json.loads(choice["message"]["content"]), schema["enum"])
        # This model has no token for what begins an object.
        chat["response_format"] = {"type": "json_object"}
        with self.assertRaises(http.client.IncompleteRead) as cut:
            self.server.post("/v1/chat/completions", chat)
        self.assertIn("no token", json.loads(cut.exception.partial)["error"]["message"])
        self.assertEqual(self.server.metric("requests_running"), 0)

    def test_a_stream_says_the_same_in_pieces(self):
        body = {"prompt": "ab", "max_tokens": 9, "seed": 5, "logit_bias": NO_END}
        whole = self.server.post("/v1/completions", body)[1]
        options = {"stream": True, "stream_options": {"include_usage": True}}
        *chunks, usage, done = events(self.server, "/v1/completions", body | options)
        self.assertEqual(done, "[DONE]")
        self.assertEqual(usage["usage"], whole["usage"])
        text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
        self.assertEqual(text, whole["choices"][0]["text"])
        reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
        self.assertEqual(reasons, [None] * (len(reasons) - 1) + ["length"])

    def test_a_chat_streams_deltas(self):
        body = {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "ab"}]}],
            "max_tokens": 5,
            "temperature": 0,
            "logit_bias": NO_END,
        }
        whole = self.server.post("/v1/chat/completions", body)[1]
        message = whole["choices"][0]["message"]
        self.assertEqual(message["role"], "assistant")
        *chunks, _ = events(self.server, "/v1/chat/completions", body | {"stream": True})
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        self.assertEqual(deltas[0]["role"], "assistant")
        self.assertEqual("".join(delta.get("content", "") for delta in deltas), message["content"])

    def test_a_stop_text_ends_it_and_is_not_shown(self):
        body = {"prompt": "ab", "max_tokens": 40, "seed": 1, "logit_bias": NO_END}
        text = self.server.post("/v1/completions", body)[1]["choices"][0]["text"]
        choice = self.server.post("/v1/completions", body | {"stop": [text[5:8]]})[1]["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertEqual(choice["text"], text[: text.index(text[5:8])])

    def test_embeddings_have_length_1_and_do_not_depend_on_the_company(self):
        both = self.server.post("/v1/embeddings", {"input": ["abc", "xyz"]})[1]
        vectors = [entry["embedding"] for entry in both["data"]]
        self.assertEqual([len(vector) for vector in vectors], [64, 64])
        self.assertEqual(both["usage"]["prompt_tokens"], 6)
        for vector in vectors:
            self.assertAlmostEqual(math.hypot(*vector), 1, places=5)
        self.assertLess(sum(a * b for a, b in zip(*vectors, strict=True)), 0.99)
        alone = self.server.post("/v1/embeddings", {"input": "xyz"})[1]["data"][0]["embedding"]
        for a, b in zip(alone, vectors[1], strict=True):
            self.assertAlmostEqual(a, b, places=4)

    def test_eight_clients_at_once_get_what_they_get_alone(self):
        def ask(seed):
            body = {"prompt": "abc"[: 1 + seed % 3], "max_tokens": 60, "temperature": 0}
            return self.server.post("/v1/completions", body)[1]["choices"][0]["text"]

        alone = [ask(seed) for seed in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            self.assertEqual(list(clients.map(ask, range(8))), alone)

    def test_one_connection_serves_many_requests(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        with contextlib.closing(connection):
            for _ in range(5):
                connection.request("GET", "/v1/models")
                response = connection.getresponse()
                self.assertEqual(json.loads(response.read())["data"][0]["id"], "small")
                body = json.dumps({"prompt": "ab", "max_tokens": 2})
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/v1/completions", body, headers)
                self.assertEqual(
                    json.loads(connection.getresponse().read())["choices"][0]["index"], 0
                )


class RefusalTest(ServeTest):
    def refuse(self, status, field, body, path="/v1/completions", headers=None):
        found, reply = self.server.post(path, body, headers)
        self.assertEqual((found, reply["error"]["param"]), (status, field), reply)
        self.assertTrue(reply["error"]["message"])
        return reply["error"]["message"]

    def test_each_wrong_field_is_named(self):
        wrong = {
            "temperature": ["hot", -1, 3, [], True],
            "max_tokens": [0, -1, 1.5, 1 << 62, 1 << 63, 1 << 200, "1"],
            "top_p": [0, 1.1, "x"],
            "top_k": [-1, 51, 0.5],
            "n": [0, 2, "1"],
            "seed": ["x", 1.5, 1 << 64],
            "stop": ["", [1], ["a"] * 17, {}],
            "logit_bias": [[], {"x": 1}, {"50": 1}, {"-1": 1}, {"01x": 1}],
            "logprobs": [21, -1, "yes"],
            "grammar": [7, "root ::= x", 'root ::= "x" root'],
            "response_format": [7],
            "stream": ["yes", 1],
            "n_discard": [-1, 2147483647],
            "repetition_penalty": [0, -1, 1000],
            "prompt": ["", [], 7, [50], [-1], [1 << 63], [0.5], ["a", "b"], {}, None],
        }
        for field, values in wrong.items():
            for value in values:
                with self.subTest(field=field, value=value):
                    self.refuse(400, field, {"prompt": "ab"} | {field: value})
        self.refuse(400, "logit_bias.3", {"prompt": "ab", "logit_bias": {"3": 101}})

    def test_bodies_that_are_no_requests(self):
        for body in (
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"prompt":"a","top_p":1e999}',
            b"\xff",
            b"[" * 100000,
        ):
            with self.subTest(body=body[:20]):
                self.assertEqual(self.server.post("/v1/completions", body)[0], 400)
        self.refuse(415, None, {"prompt": "a"}, headers={"Content-Type": "text/plain"})
        self.refuse(404, None, {"prompt": "a"}, "/v1/nothing")

    def test_chats(self):
        path = "/v1/chat/completions"
        for messages in (None, [], {}, "x"):
            self.refuse(400, "messages", {"messages": messages}, path)
        self.refuse(400, "messages[0].content", {"messages": [{"role": "user"}]}, path)
        self.refuse(400, "messages[0].role", {"messages": [{"content": "a"}]}, path)
        long = [{"role": "user", "content": "abcdefg" * 30}]
        self.assertIn("context of 128", self.refuse(400, "messages", {"messages": long}, path))

    def test_prompts_that_are_too_long(self):
        message = self.refuse(400, "prompt", {"prompt": "abcdefg" * 30})
        self.assertIn("context of 128", message)
        self.refuse(400, "input", {"input": "abcdefg" * 30}, "/v1/embeddings")
        self.refuse(400, "input", {"input": ["a"] * 65}, "/v1/embeddings")

    def test_bodies_that_are_too_large(self):
        for extra in ({}, {"Transfer-Encoding": "chunked"}):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
            with contextlib.closing(connection):
                headers = {"Content-Type": "application/json"} | extra
                body = b"x" * (5 << 20)
                status = None
                # It may hang up before it has heard all of it.
                with contextlib.suppress(ConnectionError):
                    chunks = [body] if extra else body
                    connection.request(
                        "POST", "/v1/completions", chunks, headers, encode_chunked=bool(extra)
                    )
                    status = connection.getresponse().status
                self.assertIn(status, (413, None))
        self.assertEqual(self.server.get("/health")[0], 200)


def broken_requests(source):
    """Bytes that are almost HTTP."""
    body = b'{"prompt":"ab","max_tokens":2}'
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    good = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    yield b"\r\n\r\n"
    yield b"GET\r\n\r\n"
    yield b"GET / HTTP/9.9\r\n\r\n"
    yield b"GET /%zz%00 HTTP/1.1\r\n\r\n"
    yield b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n"
    yield b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n"
    for length in (b"-1", b"99999999999999999999", b"x", b"10000"):
        yield head + b"Content-Length: " + length + b"\r\n\r\n" + body
    for size in (b"fffffffffffffffff", b"-5", b"zz"):
        yield head + b"Transfer-Encoding: chunked\r\n\r\n" + size + b"\r\n" + body
    for _ in range(60):
        mutated = bytearray(good)
        for _ in range(source.randint(1, 6)):
            mutated[source.randrange(len(mutated))] = source.randrange(256)
        yield bytes(mutated[: source.randint(1, len(mutated))])


class HardshipTest(ServeTest):
    def test_nothing_that_is_sent_ends_it(self):
        for sent in broken_requests(random.Random(7)):
            with (
                socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as connection,
                contextlib.suppress(ConnectionError),
            ):
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1 << 16)
        self.assertEqual(
            self.server.post("/v1/completions", {"prompt": "ab", "max_tokens": 1})[0], 200
        )

    def serve(self, *options):
        server = Server(self.large, "--context", 60000, "--tokens", 60000, *options)
        self.addCleanup(lambda: self.assertEqual(server.close(), 0))
        return server

    def leave_behind(self, server, stream=False):
        """A client that asked for a long answer and has not read it."""
        body = {"prompt": "ab", "max_tokens": 59000, "logit_bias": NO_END, "stream": stream}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.addCleanup(connection.close)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        return connection

    def test_who_goes_away_is_not_computed_for_and_the_queue_is_bounded(self):
        server = self.serve("--parallel", 1, "--queue", 1)
        running = self.leave_behind(server)
        server.wait_for("requests_running", 1)
        waiting = self.leave_behind(server, stream=True)
        server.wait_for("requests_waiting", 1)
        status, reply = server.post("/v1/completions", {"prompt": "ab"})
        self.assertEqual((status, reply["error"]["type"]), (429, "invalid_request_error"))
        waiting.close()
        server.wait_for("requests_waiting", 0)
        running.close()
        server.wait_for("requests_running", 0)
        self.assertEqual(server.metric("requests_cancelled_total"), 2)

    def test_time_is_bounded_and_an_end_ends_everything(self):
        server = self.serve("--parallel", 1, "--seconds", 1)
        body = {"prompt": "ab", "max_tokens": 59000, "logit_bias": NO_END}
        start = time.monotonic()
        choice = server.post("/v1/completions", body)[1]["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")
        self.assertGreater(len(choice["text"]), 10)
        self.assertLess(time.monotonic() - start, 20)
        self.leave_behind(server)  # is there when it ends

    def test_a_key_is_asked_for(self):
        server = Server(self.small, "--api-key", "secret")
        self.addCleanup(server.close)
        for key, status in (("", 401), ("Bearer secre", 401), ("Bearer secret", 200)):
            headers = {"Authorization": key}
            body = {"prompt": "ab", "max_tokens": 1}
            self.assertEqual(server.post("/v1/completions", body, headers)[0], status)
            self.assertEqual(server.get("/v1/models", headers)[0], status)
        self.assertEqual(server.get("/health")[0], 200)

    def test_a_port_that_is_taken_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "cannot listen on"):
            Server(self.small, port=self.server.port)


class Browser:
    """A headless Chromium, by way of the WebDriver protocol."""

    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={self.port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
        options = {"goog:chromeOptions": {"args": arguments}}
        for _ in range(100):
            with contextlib.suppress(urllib.error.URLError):
                self.call("GET", "/status")
                break
            time.sleep(0.1)
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self.session = "/session/" + session["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)["value"]

    def run(self, script):
        body = {"script": script, "args": []}
        return self.call("POST", self.session + "/execute/sync", body)

    def close(self):
        with contextlib.suppress(AttributeError, urllib.error.URLError):
            self.call("DELETE", self.session)
        self.driver.terminate()
        self.driver.wait()


class PageTest(ServeTest):
    def test_it_needs_nothing_from_elsewhere(self):
        status, page = self.server.get("/")
        self.assertEqual(status, 200)
        for outside in ("http://", "https://", " src=", "<link", "@import", "url("):
            self.assertNotIn(outside, page)

    @unittest.skipUnless(shutil.which("chromedriver"), "no chromedriver: the page was not tried")
    def test_a_person_chats(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        browser = Browser(folder.name)
        self.addCleanup(browser.close)
        browser.call("POST", browser.session + "/url", {"url": self.server.url("/")})
        browser.run("document.getElementById('tokens').value = 20")
        browser.run("document.querySelector('textarea').value = 'ab'")
        browser.run("document.getElementById('send').click()")
        for _ in range(100):
            state = browser.run(
                "return [document.getElementById('send').textContent, document.title,"
                " [...document.querySelectorAll('.said')].map(e => e.className),"
                " document.querySelector('.assistant')?.textContent]"
            )
            if state[0] == "Send" and state[3]:
                break
            time.sleep(0.1)
        self.assertEqual(state[:3], ["Send", "small", ["said user", "said assistant"]])
        self.assertTrue(state[3])


if __name__ == "__main__":
    BINARY, TINY_MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
