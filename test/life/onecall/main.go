// Command onecall makes the same call some times on a bus of its own and writes which code it ran. It is built with
// `go build -cover -covermode=atomic`, and counts only what runs between the calls and their outcomes.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/coverage"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// repeats is how often the call is made: what depends on a moment, such as an acceptance that is sent or not, is in
// one of them.
const repeats = 20

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run writes the coverage of a call of a tool in a folder of tools to dir. The data of the server lie in state.
func run(tools, supervisor, state, dir string) error {
	srv, err := natsserver.Start(natsserver.Options{StoreDir: state})
	if err != nil {
		return err
	}
	defer srv.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := toolbus.Connect(ctx, srv.URL(), toolbus.Options{})
	if err != nil {
		return err
	}
	defer conn.Close()
	set := toolbus.NewToolset()
	if err := set.AddFolder(tools); err != nil {
		return err
	}
	d, err := conn.Dispatcher(set, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		return err
	}
	e, err := conn.Executor(set, toolbus.ExecutorOptions{Supervisor: supervisor})
	if err != nil {
		return err
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() { ended <- toolbus.Serve(serving, d, e, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	client, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		return err
	}
	defer client.Close()
	call := toolbus.Call{Tool: "transcript.clean", Input: []byte(`{"text":"one line"}`)}
	for range 3 { // with the description of the tool, and connections that are warm
		if _, err := client.Call(ctx, call); err != nil {
			return err
		}
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	for range repeats {
		if _, err := client.Call(ctx, call); err != nil {
			return err
		}
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return err
	}
	stop()
	<-ended
	return coverage.WriteMetaDir(dir)
}
