package main

import (
	"context"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
)

// langchain is LangChain for Go. Its errors have no HTTP status.
func langchain(base string) library {
	said := func(text string) []llms.MessageContent {
		return []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}
	}
	ask := func(ctx context.Context, key, model string, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentChoice, error) {
		client, err := openai.New(openai.WithBaseURL(base), openai.WithToken(key), openai.WithModel(model))
		if err != nil {
			return nil, err
		}
		answer, err := client.GenerateContent(ctx, messages, options...)
		if err != nil {
			return nil, err
		}
		return answer.Choices[0], nil
	}
	tokens := func(what seen, choice *llms.ContentChoice) seen {
		what["text"] = choice.Content
		what["input"], what["output"] = choice.GenerationInfo["PromptTokens"], choice.GenerationInfo["CompletionTokens"]
		return what
	}

	whole := func(ctx context.Context, key, model string) (seen, error) {
		choice, err := ask(ctx, key, model, said(hello))
		if err != nil {
			return nil, err
		}
		return tokens(seen{}, choice), nil
	}

	stream := func(ctx context.Context, key, model string) (seen, error) {
		pieces, text := 0, ""
		choice, err := ask(ctx, key, model, said(hello), llms.WithStreamingFunc(func(_ context.Context, piece []byte) error {
			if len(piece) > 0 {
				pieces++
				text += string(piece)
			}
			return nil
		}))
		if err != nil {
			return seen{"text": text}, err
		}
		return tokens(seen{"pieces": pieces}, choice), nil
	}

	tools := func(ctx context.Context, key string) (seen, error) {
		weatherTool := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "get_weather", Parameters: cityParameters, Strict: true}}})
		messages := said(weather)
		choice, err := ask(ctx, key, "tools", messages, weatherTool)
		if err != nil {
			return nil, err
		}
		call := choice.ToolCalls[0]
		what := seen{"tool": call.FunctionCall.Name}
		if err := fill(what, call.FunctionCall.Arguments); err != nil {
			return nil, err
		}
		result := llms.ToolCallResponse{ToolCallID: call.ID, Name: call.FunctionCall.Name, Content: sky(what["city"].(string))}
		messages = append(messages,
			llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}},
			llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{result}})
		choice, err = ask(ctx, key, "tools", messages, weatherTool)
		if err != nil {
			return nil, err
		}
		what["text"] = choice.Content
		return what, nil
	}

	structured := func(ctx context.Context, key string) (seen, error) {
		client, err := openai.New(openai.WithBaseURL(base), openai.WithToken(key), openai.WithModel("structured"),
			openai.WithResponseFormat(&openai.ResponseFormat{Type: "json_schema", JSONSchema: &openai.ResponseFormatJSONSchema{
				Name:   "report",
				Strict: true,
				Schema: &openai.ResponseFormatJSONSchemaProperty{
					Type: "object",
					Properties: map[string]*openai.ResponseFormatJSONSchemaProperty{
						"city":    {Type: "string"},
						"celsius": {Type: "integer"},
					},
					Required: []string{"city", "celsius"},
				},
			}}))
		if err != nil {
			return nil, err
		}
		answer, err := client.GenerateContent(ctx, said(weather))
		if err != nil {
			return nil, err
		}
		what := seen{}
		return what, fill(what, answer.Choices[0].Content)
	}

	return library{whole, stream, tools, structured, func(err error) (any, string) { return nil, err.Error() }}
}
