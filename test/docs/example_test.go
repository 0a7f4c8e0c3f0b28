package docs_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// Example is the program of the README. It needs a bus, so it is compiled and not run.
func Example() {
	if err := search(context.Background(), "nats://127.0.0.1:4280"); err != nil {
		fmt.Println(err)
	}
}

func search(ctx context.Context, url string) error {
	nc, err := bus.Dial(url, "my-agent")
	if err != nil {
		return err
	}
	defer nc.Close()
	client, err := bus.NewClient(nc, bus.ClientOptions{Actor: "agent://me"})
	if err != nil {
		return err
	}
	defer client.Close()

	resp, err := client.Call(ctx, bus.Call{
		Tool:  "text.search",
		Input: jsontext.Value(`{"pattern":"func main"}`),
		Key:   "search-func-main-2026-11-20", // the same key never runs twice
		Chunk: func(c envelope.Chunk) error { fmt.Println(string(c.Data)); return nil },
	})
	if err != nil {
		return err // nothing was sent
	}
	switch resp.Status {
	case envelope.Success:
		fmt.Println(string(resp.Output))
	case envelope.RetryableError: // the same key may be asked again
		return errors.New(resp.Error.Message)
	default: // terminal_error, invalid_request: asking again does not help
		return fmt.Errorf("%s, effect %s: %s", resp.Error.Code, resp.Error.Details.Effect, resp.Error.Fix)
	}
	return nil
}
