package toolbus_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
)

type Person struct {
	Name string `json:"name" jsonschema:"who is to be greeted"`
}

type Greeting struct {
	Text string `json:"greeting"`
}

// Greet is a tool: a function that takes and returns what encodes to JSON.
func Greet(_ context.Context, run *toolbus.Run, who Person) (Greeting, error) {
	for _, word := range []string{"Hello", who.Name} {
		if err := run.Emit(word); err != nil {
			return Greeting{}, err
		}
	}
	return Greeting{"Hello " + who.Name}, nil
}

// A process that is a whole bus but for its NATS server: it makes a tool of a function, runs it, and calls it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	url, end := exampleServer()
	defer end()
	conn, err := toolbus.Connect(ctx, url, toolbus.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close() // ends what runs, in order

	tools := toolbus.NewToolset()
	err = toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure}, Greet)
	if err != nil {
		log.Fatal(err)
	}
	executor, err := conn.Executor(tools, toolbus.ExecutorOptions{})
	if err != nil {
		log.Fatal(err)
	}
	dispatcher, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		log.Fatal(err)
	}
	go executor.Run(ctx)
	go dispatcher.Run(ctx)

	client, err := conn.Client(toolbus.ClientOptions{Actor: "agent://me"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	greeting, err := toolbus.Invoke[Greeting](ctx, client, toolbus.Call{Tool: "greet"}, Person{"Ada"})
	fmt.Println(greeting.Text, err)
	// Output: Hello Ada <nil>
}

// A nil error means success. Every other end of a call is an Error.
func ExampleClient_Call() {
	client, stop := exampleClient(greeter())
	defer stop()

	resp, err := client.Call(context.Background(), toolbus.Call{
		Tool: "greet", Input: []byte(`{"name":"Ada"}`), Timeout: 30 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status, string(resp.Output))

	_, err = client.Call(context.Background(), toolbus.Call{Tool: "greet", Input: []byte(`{"nam":"Ada"}`)})
	failed, ok := errors.AsType[*toolbus.Error](err)
	if !ok {
		log.Fatal(err) // the call could not be sent, or was given up
	}
	fmt.Println(failed.Status(), failed.Code())
	for _, v := range failed.Reason().Details.Violations {
		fmt.Println(v.Pointer)
	}
	// Output:
	// success {"greeting":"Hello Ada"}
	// invalid_request I-REQ-SCHEMA
	// /input/nam
	// /input/name
}

// Stream yields what a tool emits while it runs, in order and without gaps, and the outcome last.
func ExampleClient_Stream() {
	client, stop := exampleClient(greeter())
	defer stop()

	call := toolbus.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`)}
	for part, err := range client.Stream(context.Background(), call) {
		switch {
		case err != nil:
			log.Fatal(err)
		case part.Chunk != nil:
			fmt.Println(part.Chunk.Index, part.Chunk.Kind, string(part.Chunk.Data))
		default:
			fmt.Println(part.Response.Status)
		}
	}
	// Output:
	// 0 data "Hello"
	// 1 data "Ada"
	// success
}

// What became of a call is found by the reference that its acceptance gave, from anywhere. The outcome of a quick call
// can come before the acceptance, and then OnAccepted is not called; here the tool waits for it.
func ExampleClient_Result() {
	tools, accepted := toolbus.NewToolset(), make(chan struct{})
	err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, name string) (string, error) {
			<-accepted
			return "Hello " + name, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := exampleClient(tools)
	defer stop()
	var ref string
	_, err = client.Call(context.Background(), toolbus.Call{
		Tool: "greet", Input: []byte(`"Grace"`),
		OnAccepted: func(a toolbus.Accepted) { ref = a.Ref; close(accepted) },
	})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := client.Result(context.Background(), toolbus.CallRef{Ref: ref})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status, string(answer.Output))
	why, err := client.Why(context.Background(), toolbus.CallRef{Ref: ref})
	if err != nil {
		log.Fatal(err)
	}
	what, _, _ := strings.Cut(why, " after ")
	fmt.Println(what)
	// Output:
	// success "Hello Grace"
	// Attempt 1 of greet 0.1.0 (run) succeeded
}

// A call that is cancelled ends at once, and its tool with it.
func ExampleClient_Cancel() {
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "hang", Class: toolbus.Pure},
		func(ctx context.Context, _ *toolbus.Run, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := exampleClient(tools)
	defer stop()
	resp, err := toolbus.Outcome(client.Call(context.Background(), toolbus.Call{
		Tool: "hang", OnAccepted: func(a toolbus.Accepted) {
			if _, err := client.Cancel(context.Background(), toolbus.CallRef{Ref: a.Ref}); err != nil {
				log.Fatal(err)
			}
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status, resp.Error.Code) // Outcome has the response of any end
	// Output: retryable_error P-PRECOND-CANCELLED
}

// An outcome that is no success is an Error; the error that a tool declares is the same on both sides.
func ExampleInvoke() {
	errNobody := &toolbus.ToolError{
		Name: "nobody", Class: "P-PRECOND", HTTPStatus: 404,
		Message: "there is nobody of that name", Fix: "ask for somebody else",
	}
	tools := toolbus.NewToolset()
	about := toolbus.Tool{ID: "find", Class: toolbus.Pure, Errors: []*toolbus.ToolError{errNobody}}
	err := toolbus.Add(tools, about, func(_ context.Context, _ *toolbus.Run, who Person) (string, error) {
		if who.Name != "Ada" {
			return "", errNobody.Because("there is no %s here", who.Name)
		}
		return "here", nil
	})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := exampleClient(tools)
	defer stop()

	call := toolbus.Call{Tool: "find"}
	where, err := toolbus.Invoke[string](context.Background(), client, call, Person{"Ada"})
	fmt.Println(where, err)
	_, err = toolbus.Invoke[string](context.Background(), client, call, Person{"Bob"})
	fmt.Println(err)
	if failed, ok := errors.AsType[*toolbus.Error](err); ok {
		fmt.Println(failed.Status(), failed.Fix())
	}
	fmt.Println(errors.Is(err, errNobody))
	// Output:
	// here <nil>
	// P-PRECOND-NOBODY: there is no Bob here
	// terminal_error ask for somebody else
	// true
}

// A tool may have several functions; all else that is said of it is the same for them.
func ExampleAdd() {
	tools := toolbus.NewToolset()
	about := toolbus.Tool{
		ID: "arithmetic", Version: "1.2.0", Class: toolbus.Pure, Description: "Reckons.",
		Timeout: time.Second, Concurrency: 4,
	}
	type pair struct {
		A float64 `json:"a"`
		B float64 `json:"b,omitzero" jsonschema:"not 0"`
	}
	add := func(_ context.Context, _ *toolbus.Run, in pair) (float64, error) { return in.A + in.B, nil }
	divide := func(_ context.Context, _ *toolbus.Run, in pair) (float64, error) { return in.A / in.B, nil }
	about.Function, about.FunctionDescription = "add", "a + b"
	err := toolbus.Add(tools, about, add)
	if err != nil {
		log.Fatal(err)
	}
	about.Function, about.FunctionDescription = "divide", "a / b" // 1 / 0 has no JSON: that is a fault of the tool
	err = toolbus.Add(tools, about, divide)
	if err != nil {
		log.Fatal(err)
	}
	client, stop := exampleClient(tools)
	defer stop()

	info, err := client.Tool(context.Background(), "arithmetic")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.ReplaceAll(string(info.Functions["divide"].Request), `,"`, ",\n\""))
	call := toolbus.Call{Tool: "arithmetic", Function: "add"}
	five, err := toolbus.Invoke[float64](context.Background(), client, call, pair{2, 3})
	fmt.Println(five, err)
	// Output:
	// {"type":"object",
	// "properties":{"a":{"type":"number"},
	// "b":{"type":"number",
	// "description":"not 0"}},
	// "required":["a"],
	// "additionalProperties":false}
	// 5 <nil>
}

// Mistakes are said all at once, where they are made.
func ExampleAdd_mistakes() {
	err := toolbus.Add(toolbus.NewToolset(), toolbus.Tool{ID: "greet", Version: "one", Pool: "my pool"}, Greet)
	fmt.Println(err)
	// Output:
	// tool "greet", function "run":
	// the class is "": it is Pure, Idempotent or SideEffectful, see toolbus.EffectClass
	// "one" is not a semantic version (write it as 1.2.3)
	// "my pool" is not a pool name (lower-case letters, digits and -, at most 32 bytes)
}

// A tool that has an effect commits it under the key of the call, by which a lookup finds it. It is never run again
// when its executor has died: the lookup says what became of it.
func ExampleWithLookup() {
	sent := map[string]string{} // a database, say
	type letter struct {
		Text string `json:"text"`
	}
	tools := toolbus.NewToolset()
	send := func(_ context.Context, run *toolbus.Run, in letter) (string, error) {
		sent[run.IdempotencyKey] = in.Text
		run.SideEffect(toolbus.SideEffect{Kind: "letter.send", Target: "post://office", Bytes: int64(len(in.Text))})
		return "sent", nil
	}
	lookup := func(_ context.Context, run *toolbus.Run, _ letter) (string, error) {
		if _, ok := sent[run.IdempotencyKey]; !ok {
			return "", toolbus.ErrAbsent
		}
		return "sent", nil
	}
	err := toolbus.Add(tools, toolbus.Tool{ID: "letter.send", Class: toolbus.SideEffectful}, send,
		toolbus.WithLookup(lookup))
	if err != nil {
		log.Fatal(err)
	}
	client, stop := exampleClient(tools)
	defer stop()

	call := toolbus.Call{Tool: "letter.send", Input: []byte(`{"text":"hi"}`), Key: "letter-2026-0042"}
	for range 2 { // the second call has the key of the first one, and so its outcome
		resp, err := client.Call(context.Background(), call)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(resp.Output), string(resp.SideEffects[0]), resp.Provenance.Replayed)
	}
	fmt.Println(len(sent))
	// Output:
	// "sent" {"kind":"letter.send","target":"post://office","bytes":2} false
	// "sent" {"kind":"letter.send","target":"post://office","bytes":2} true
	// 1
}

// A program whose main function calls ToolMain is the same tool as a program, which `toolbus dev` runs from a folder.
// With --manifest it writes that folder.
func ExampleToolMain() {
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure, Streaming: true}, Greet); err != nil {
		log.Fatal(err)
	}
	defer exampleArgs("./greet", "--manifest", "tools")()
	toolbus.ToolMain(tools)
	manifest, err := os.ReadFile("tools/greet/tool.yaml")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(manifest))
	// Output:
	// tools/greet is a tool once the package of this program is built into it: go build -o tools/greet/greet PACKAGE
	// tool_id: greet
	// semver: 0.1.0
	// owner: "@local"
	// description: greet
	// determinism: pure
	// transport: process
	// endpoint:
	//   command:
	//   - ./greet
	// functions:
	//   run:
	//     description: greet
	//     request: run.request.json
	//     response: run.response.json
	// capabilities:
	//   streaming: true
}

// An executor runs Go functions beside programs from folders. It ends with its context, when the calls in hand have.
func ExampleExecutor_Run() {
	toolbus.SupervisorMain() // first in main: the programs need it
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure}, Greet); err != nil {
		log.Fatal(err)
	}
	if err := tools.AddFolder("testdata/tools"); err != nil { // all that is wrong with any of them
		log.Fatal(err)
	}
	url, end := exampleDispatcher(tools) // until there is one, the executor waits
	defer end()
	conn, err := toolbus.Connect(ctx, url, toolbus.Options{Name: "my-executor"})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	executor, err := conn.Executor(tools, toolbus.ExecutorOptions{
		Slots: 32, Drain: 30 * time.Second, Ready: func(string) { fmt.Println("ready"); stop() },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(executor.Run(ctx))
	// Output:
	// ready
	// <nil>
}

// One process can be dispatcher and executor; it is ready when both are.
func ExampleServe() {
	ctx, stop := context.WithCancel(context.Background())
	url, end := exampleServer()
	defer end()
	conn, err := toolbus.Connect(ctx, url, toolbus.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure}, Greet); err != nil {
		log.Fatal(err)
	}
	dispatcher, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		log.Fatal(err)
	}
	executor, err := conn.Executor(tools, toolbus.ExecutorOptions{})
	if err != nil {
		log.Fatal(err)
	}
	err = toolbus.Serve(ctx, dispatcher, executor, func() { fmt.Println("ready"); stop() })
	fmt.Println(err)
	// Output:
	// ready
	// <nil>
}
