package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// openaiChat is the official library on chat completions.
func openaiChat(base string) library {
	client := openai.NewClient(option.WithBaseURL(base))
	said := func(text string) []openai.ChatCompletionMessageParamUnion {
		return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}
	}

	whole := func(ctx context.Context, key, model string) (seen, error) {
		answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: model, Messages: said(hello)}, option.WithAPIKey(key))
		if err != nil {
			return nil, err
		}
		return seen{"text": answer.Choices[0].Message.Content, "input": answer.Usage.PromptTokens, "output": answer.Usage.CompletionTokens}, nil
	}

	stream := func(ctx context.Context, key, model string) (seen, error) {
		events := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
			Model:         model,
			Messages:      said(hello),
			StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		}, option.WithAPIKey(key))
		all := openai.ChatCompletionAccumulator{}
		pieces, text := 0, ""
		for events.Next() {
			chunk := events.Current()
			all.AddChunk(chunk)
			if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
				pieces++
				text += chunk.Choices[0].Delta.Content
			}
		}
		return seen{"text": text, "pieces": pieces, "input": all.Usage.PromptTokens, "output": all.Usage.CompletionTokens}, events.Err()
	}

	tools := func(ctx context.Context, key string) (seen, error) {
		params := openai.ChatCompletionNewParams{
			Model:    "tools",
			Messages: said(weather),
			Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
				Name:       "get_weather",
				Parameters: cityParameters,
				Strict:     openai.Bool(true),
			})},
		}
		answer, err := client.Chat.Completions.New(ctx, params, option.WithAPIKey(key))
		if err != nil {
			return nil, err
		}
		message := answer.Choices[0].Message
		call := message.ToolCalls[0]
		what := seen{"tool": call.Function.Name}
		if err := fill(what, call.Function.Arguments); err != nil {
			return nil, err
		}
		params.Messages = append(params.Messages, message.ToParam(), openai.ToolMessage(sky(what["city"].(string)), call.ID))
		answer, err = client.Chat.Completions.New(ctx, params, option.WithAPIKey(key))
		if err != nil {
			return nil, err
		}
		what["text"] = answer.Choices[0].Message.Content
		return what, nil
	}

	structured := func(ctx context.Context, key string) (seen, error) {
		answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model:    "structured",
			Messages: said(weather),
			ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
				JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "report", Schema: reportSchema, Strict: openai.Bool(true)},
			}},
		}, option.WithAPIKey(key))
		if err != nil {
			return nil, err
		}
		what := seen{}
		return what, json.Unmarshal([]byte(answer.Choices[0].Message.Content), &what)
	}

	return library{whole, stream, tools, structured, openaiRefused}
}

// The error's text omits the server's message; its field has it.
func openaiRefused(err error) (any, string) {
	var refused *openai.Error
	if errors.As(err, &refused) {
		return refused.StatusCode, refused.Message
	}
	return nil, err.Error()
}
