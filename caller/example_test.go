package caller_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/seed-018f16cc/toolbus/caller"
)

func ExampleConnect() {
	ctx := context.Background()
	client, err := caller.Connect(ctx, "", caller.Options{CredentialsFile: "/etc/toolbus/agent"})
	if err != nil {
		log.Fatal(err) // it says what to do
	}
	defer client.Close()
	call := caller.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`), Key: "greet-ada-0000001"}
	resp, err := client.Call(ctx, call)
	if failed, ok := errors.AsType[*caller.Error](err); ok {
		log.Fatalf("%v (effect %s)\n%s", failed, failed.Effect(), failed.Fix())
	}
	if err != nil {
		log.Fatal(err) // the call was not sent, or was given up
	}
	fmt.Println(string(resp.Output))
}
