package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	openai "github.com/sashabaranov/go-openai"
)

// goOpenai is the community's library.
func goOpenai(base string) library {
	with := func(key string) *openai.Client {
		config := openai.DefaultConfig(key)
		config.BaseURL = base
		return openai.NewClientWithConfig(config)
	}
	said := func(text string) []openai.ChatCompletionMessage {
		return []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: text}}
	}

	whole := func(ctx context.Context, key, model string) (seen, error) {
		answer, err := with(key).CreateChatCompletion(ctx, openai.ChatCompletionRequest{Model: model, Messages: said(hello)})
		if err != nil {
			return nil, err
		}
		return seen{"text": answer.Choices[0].Message.Content, "input": answer.Usage.PromptTokens, "output": answer.Usage.CompletionTokens}, nil
	}

	stream := func(ctx context.Context, key, model string) (seen, error) {
		events, err := with(key).CreateChatCompletionStream(ctx, openai.ChatCompletionRequest{
			Model:         model,
			Messages:      said(hello),
			StreamOptions: &openai.StreamOptions{IncludeUsage: true},
		})
		if err != nil {
			return nil, err
		}
		defer events.Close()
		what := seen{}
		pieces, text := 0, ""
		for {
			chunk, err := events.Recv()
			what["text"], what["pieces"] = text, pieces
			if errors.Is(err, io.EOF) {
				return what, nil
			}
			if err != nil {
				return what, err
			}
			if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
				pieces++
				text += chunk.Choices[0].Delta.Content
			}
			if chunk.Usage != nil {
				what["input"], what["output"] = chunk.Usage.PromptTokens, chunk.Usage.CompletionTokens
			}
		}
	}

	tools := func(ctx context.Context, key string) (seen, error) {
		request := openai.ChatCompletionRequest{
			Model:    "tools",
			Messages: said(weather),
			Tools: []openai.Tool{{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
				Name:       "get_weather",
				Parameters: cityParameters,
				Strict:     true,
			}}},
		}
		answer, err := with(key).CreateChatCompletion(ctx, request)
		if err != nil {
			return nil, err
		}
		message := answer.Choices[0].Message
		call := message.ToolCalls[0]
		what := seen{"tool": call.Function.Name}
		if err := fill(what, call.Function.Arguments); err != nil {
			return nil, err
		}
		result := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: call.ID, Content: sky(what["city"].(string))}
		request.Messages = append(request.Messages, message, result)
		answer, err = with(key).CreateChatCompletion(ctx, request)
		if err != nil {
			return nil, err
		}
		what["text"] = answer.Choices[0].Message.Content
		return what, nil
	}

	structured := func(ctx context.Context, key string) (seen, error) {
		schema, err := json.Marshal(reportSchema)
		if err != nil {
			return nil, err
		}
		answer, err := with(key).CreateChatCompletion(ctx, openai.ChatCompletionRequest{
			Model:    "structured",
			Messages: said(weather),
			ResponseFormat: &openai.ChatCompletionResponseFormat{
				Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
				JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: "report", Schema: json.RawMessage(schema), Strict: true},
			},
		})
		if err != nil {
			return nil, err
		}
		what := seen{}
		return what, fill(what, answer.Choices[0].Message.Content)
	}

	refused := func(err error) (any, string) {
		var refused *openai.APIError
		if errors.As(err, &refused) && refused.HTTPStatusCode > 0 {
			return refused.HTTPStatusCode, err.Error()
		}
		var failed *openai.RequestError
		if errors.As(err, &failed) {
			return failed.HTTPStatusCode, err.Error()
		}
		return nil, err.Error()
	}
	return library{whole, stream, tools, structured, refused}
}
