/* thinwire's inference engine for programs in C and whatever calls C.
 *
 *   char error[256];
 *   thinwire_model* model = thinwire_load("model.gguf", NULL, error, sizeof(error));
 *   thinwire_request request = thinwire_request_defaults();
 *   request.prompt = "What is the capital of France?";
 *   thinwire_generate(model, &request, show, NULL, error, sizeof(error));
 *   thinwire_free(model);
 *
 * Text is UTF-8, ends with a zero byte, and belongs to whoever made it. Functions that can fail
 * write one line into `error` (cut off where it does not fit; may be NULL) and return what they
 * say. A model is used by one thread at a time; several models may be there at once.
 */
#ifndef THINWIRE_H_
#define THINWIRE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define THINWIRE_API __attribute__((visibility("default")))
#else
#define THINWIRE_API
#endif

typedef struct thinwire_model thinwire_model;

typedef struct {
  int threads;         /* 0: one for each core */
  int64_t context;     /* tokens that are kept; 0: as many as the model knows, at most 4096 */
  int64_t batch;       /* tokens of a prompt computed at once; 0: 256 */
  const char* kv_type; /* keys and values that are kept: "f32", "f16", "q8_0"; NULL: "f16" */
  const char* draft;   /* a smaller file of the same vocabulary that guesses tokens; NULL: none */
} thinwire_options;

typedef struct {
  const char* prompt; /* a question to answer, or with `raw` a text to continue */
  const char* system; /* how the model is to behave; NULL: nothing said. Not with `raw` */
  int raw;            /* not 0: `prompt` is continued as it is, without the file's chat template */
  int64_t tokens;     /* of the answer, at most */
  double temperature; /* higher: more surprising; 0: the likeliest token */
  int64_t top_k;      /* only so many likeliest tokens; 0: all */
  double top_p;       /* only the likeliest tokens that together have this probability */
  double min_p;       /* only tokens with so much of the likeliest one's probability */
  double repetition_penalty; /* above 1: what was said is avoided */
  uint64_t seed;             /* the same seed, the same answer */
  const char* const* stops;  /* texts that end the answer, NULL behind the last; may be NULL */
  int64_t guesses;     /* tokens guessed and checked at once, at most 7: the same answer, sooner */
  const char* grammar; /* in GBNF: the answer is a text of it; may be NULL */
  const char* json_schema; /* the answer is a document of it; may be NULL, one of both is */
} thinwire_request;

/* A piece of the answer, `bytes` long and with a zero byte behind it; whole characters. Not 0: no
 * more. */
typedef int (*thinwire_show)(const char* piece, size_t bytes, void* user);

typedef enum {
  THINWIRE_FAILED = -1,
  THINWIRE_ENDED = 0,   /* the model ended the answer, or a stop text did */
  THINWIRE_CUT_OFF = 1, /* as many tokens as asked for, or the context is full */
  THINWIRE_STOPPED = 2, /* by the callback */
} thinwire_result;

/* "0.1.0" */
THINWIRE_API const char* thinwire_version(void);

/* NULL on failure. `options` may be NULL. */
THINWIRE_API thinwire_model* thinwire_load(const char* path, const thinwire_options* options,
                                           char* error, size_t error_size);
THINWIRE_API void thinwire_free(thinwire_model* model);

/* Everything at its default, no prompt. */
THINWIRE_API thinwire_request thinwire_request_defaults(void);

/* `show` may be NULL. What an earlier call computed of the same beginning is not computed again. */
THINWIRE_API thinwire_result thinwire_generate(thinwire_model* model,
                                               const thinwire_request* request, thinwire_show show,
                                               void* user, char* error, size_t error_size);

/* Tokens of a text, as many as there are, of which the first `size` are written; -1 on failure. */
THINWIRE_API int64_t thinwire_tokenize(thinwire_model* model, const char* text, int32_t* tokens,
                                       int64_t size, char* error, size_t error_size);

#ifdef __cplusplus
}
#endif

#endif /* THINWIRE_H_ */
