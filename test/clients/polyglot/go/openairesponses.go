package main

import (
	"context"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// openaiResponses is the official library on Responses. The gateway keeps no responses: `store` is false.
func openaiResponses(base string) library {
	client := openai.NewClient(option.WithBaseURL(base))
	request := func(model, text string) responses.ResponseNewParams {
		return responses.ResponseNewParams{
			Model: model,
			Store: openai.Bool(false),
			Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
				responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser),
			}},
		}
	}

	whole := func(ctx context.Context, key, model string) (seen, error) {
		answer, err := client.Responses.New(ctx, request(model, hello), option.WithAPIKey(key))
		if err != nil {
			return nil, err
		}
		return seen{"text": answer.OutputText(), "input": answer.Usage.InputTokens, "output": answer.Usage.OutputTokens}, nil
	}

	stream := func(ctx context.Context, key, model string) (seen, error) {
		events := client.Responses.NewStreaming(ctx, request(model, hello), option.WithAPIKey(key))
		what := seen{}
		pieces, text, over := 0, "", false
		for events.Next() {
			event := events.Current()
			switch event.Type {
			case "response.output_text.delta":
				pieces++
				text += event.Delta
			case "response.completed":
				over = true
				what["input"] = event.Response.Usage.InputTokens
				what["output"] = event.Response.Usage.OutputTokens
			case "error":
				return seen{"text": text}, errors.New(event.Message)
			case "response.failed":
				return seen{"text": text}, errors.New(event.Response.Error.Message)
			}
		}
		what["text"], what["pieces"] = text, pieces
		if err := events.Err(); err != nil || over {
			return what, err
		}
		return what, errors.New("the stream has ended without response.completed")
	}

	tools := func(ctx context.Context, key string) (seen, error) {
		params := request("tools", weather)
		params.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", cityParameters, true)}
		answer, err := client.Responses.New(ctx, params, option.WithAPIKey(key))
		if err != nil {
			return nil, err
		}
		what := seen{}
		for _, item := range answer.Output {
			if item.Type != "function_call" {
				continue
			}
			call := item.AsFunctionCall()
			what["tool"] = call.Name
			if err := fill(what, call.Arguments); err != nil {
				return nil, err
			}
			result := responses.ResponseInputItemParamOfFunctionCallOutput(sky(what["city"].(string)))
			result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
			params.Input.OfInputItemList = append(params.Input.OfInputItemList,
				responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name), result)
		}
		answer, err = client.Responses.New(ctx, params, option.WithAPIKey(key))
		if err != nil {
			return nil, err
		}
		what["text"] = answer.OutputText()
		return what, nil
	}

	structured := func(ctx context.Context, key string) (seen, error) {
		params := request("structured", weather)
		params.Text = responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigParamOfJSONSchema("report", reportSchema)}
		answer, err := client.Responses.New(ctx, params, option.WithAPIKey(key))
		if err != nil {
			return nil, err
		}
		what := seen{}
		return what, fill(what, answer.OutputText())
	}

	return library{whole, stream, tools, structured, openaiRefused}
}
