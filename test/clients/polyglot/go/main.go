// Command polyglot points one client library for Go at the gateway of TOLLGATE_URL, with the keys TOLLGATE_KEY,
// TOLLGATE_POOR_KEY and TOLLGATE_WRONG_KEY. It prints one JSON line per feature with the library's result.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

const hello = "Hello"
const weather = "What is the weather in Paris?"

// Arguments of the tool get_weather.
var cityParameters = map[string]any{
	"type":                 "object",
	"properties":           map[string]any{"city": map[string]any{"type": "string"}},
	"required":             []string{"city"},
	"additionalProperties": false,
}

// Schema of a structured answer.
var reportSchema = map[string]any{
	"type": "object",
	"properties": map[string]any{
		"city":    map[string]any{"type": "string"},
		"celsius": map[string]any{"type": "integer"},
	},
	"required":             []string{"city", "celsius"},
	"additionalProperties": false,
}

// seen is the result of one feature, with the keys that the test reads.
type seen = map[string]any

// library is one client: each function sends a request in its own way, with the key.
type library struct {
	whole      func(ctx context.Context, key, model string) (seen, error)
	stream     func(ctx context.Context, key, model string) (seen, error)
	tools      func(ctx context.Context, key string) (seen, error)
	structured func(ctx context.Context, key string) (seen, error)
	// refused returns the HTTP status of the library's error, nil if it has none, and its message.
	refused func(err error) (status any, words string)
}

func main() {
	base := os.Getenv("TOLLGATE_URL") + "/v1"
	key := os.Getenv("TOLLGATE_KEY")
	libraries := map[string]library{
		"openai-go":           openaiChat(base),
		"openai-go-responses": openaiResponses(base),
		"go-openai":           goOpenai(base),
		"langchaingo":         langchain(base),
	}
	it, known := libraries[os.Args[1]]
	if !known {
		fmt.Fprintf(os.Stderr, "there is no library %q\n", os.Args[1])
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	tell := func(feature string, what seen, err error) {
		if what == nil {
			what = seen{}
		}
		what["feature"] = feature
		if err != nil {
			what["status"], what["error"] = it.refused(err)
		}
		line, _ := json.Marshal(what)
		fmt.Println(string(line))
	}
	ask := func(feature, key, model string) {
		what, err := it.whole(ctx, key, model)
		tell(feature, what, err)
	}
	ask("whole", key, "m")
	what, err := it.stream(ctx, key, "m")
	tell("stream", what, err)
	what, err = it.tools(ctx, key)
	tell("tools", what, err)
	what, err = it.structured(ctx, key)
	tell("structured", what, err)
	ask("wrong_key", os.Getenv("TOLLGATE_WRONG_KEY"), "m")
	ask("no_credit", os.Getenv("TOLLGATE_POOR_KEY"), "m")
	ask("limited", key, "limited")
	ask("no_model", key, "nothing")
	what, err = it.stream(ctx, key, "breaks")
	tell("cut", what, err)
}

// fill reads JSON into the line: the arguments of a call, or a structured answer.
func fill(what seen, text string) error {
	return json.Unmarshal([]byte(text), &what)
}

// sky is the result of the tool get_weather.
func sky(city string) string {
	return fmt.Sprintf("clear over %s", city)
}
