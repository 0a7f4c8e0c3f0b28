package toolbus_test

import (
	"context"
	"log"
	"os"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// exampleServer runs a NATS server.
func exampleServer() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "toolbus-example-")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := natsserver.Start(natsserver.Options{StoreDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	return srv.URL(), func() { srv.Stop(); _ = os.RemoveAll(dir) }
}

// exampleDispatcher runs a server with a dispatcher that knows tools.
func exampleDispatcher(tools *toolbus.Toolset) (url string, stop func()) {
	url, end := exampleServer()
	conn, err := toolbus.Connect(context.Background(), url, toolbus.Options{})
	if err != nil {
		log.Fatal(err)
	}
	dispatcher, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(context.Background()) }()
	return url, func() { conn.Close(); <-ended; end() }
}

// exampleBus runs a bus with tools.
func exampleBus(tools *toolbus.Toolset) (conn *toolbus.Conn, stop func()) {
	url, end := exampleServer()
	conn, err := toolbus.Connect(context.Background(), url, toolbus.Options{Topology: toolbus.Topology{SyncAlways: true}})
	if err != nil {
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
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- toolbus.Serve(context.Background(), dispatcher, executor, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		log.Fatal(err)
	}
	return conn, func() { conn.Close(); <-ended; end() }
}

// exampleClient runs a bus with tools, and returns a client of it.
func exampleClient(tools *toolbus.Toolset) (client *toolbus.Client, stop func()) {
	conn, end := exampleBus(tools)
	client, err := conn.Client(toolbus.ClientOptions{Actor: "agent://example"})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { _ = client.Close(); end() }
}

// greeter is a tool that streams.
func greeter() *toolbus.Toolset {
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure, Streaming: true}, Greet); err != nil {
		log.Fatal(err)
	}
	return tools
}

// exampleArgs starts this process anew, as far as a program can tell, in an empty folder.
func exampleArgs(args ...string) (undo func()) {
	before := os.Args
	here, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "toolbus-example-")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		log.Fatal(err)
	}
	os.Args = args
	return func() { os.Args = before; _ = os.Chdir(here); _ = os.RemoveAll(dir) }
}
