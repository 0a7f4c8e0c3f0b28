package toolbustest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// Bus is a running bus with a client. Make further clients, executors and dispatchers from Conn. [Start] returns one,
// and closes it at the end of the test.
type Bus struct {
	*toolbus.Client
	Conn *toolbus.Conn
	URL  string // address of the NATS server, for other programs on this host

	crashes *crashes
	t       testing.TB
}

// startTimeout bounds the start; a slow machine needs much less.
const startTimeout = 30 * time.Second

// drain is short, because no test waits for the calls that it leaves running at its end.
const drain = 100 * time.Millisecond

// Start runs a bus with tools until the test ends. It fails the test at once if the bus cannot start. Warnings and
// errors of the bus go to the output of the test.
func Start(t testing.TB, tools *toolbus.Toolset) *Bus {
	t.Helper()
	b, err := start(t, tools)
	if err != nil {
		t.Fatalf("toolbustest: %v", err)
	}
	return b
}

func start(t testing.TB, tools *toolbus.Toolset) (*Bus, error) {
	options := &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutStack}
	log := slog.New(slog.NewTextHandler(t.Output(), options))
	srv, err := natsserver.Start(natsserver.Options{StoreDir: t.TempDir(), Log: log})
	if err != nil {
		return nil, err
	}
	t.Cleanup(srv.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c := &crashes{}
	conn, err := toolbus.Connect(ctx, srv.URL(), toolbus.Options{Topology: toolbus.Topology{SyncAlways: true},
		Name: "toolbustest", Logger: log, TracerProvider: c})
	if err != nil {
		return nil, err
	}
	t.Cleanup(conn.Close)
	dispatcher, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		return nil, err
	}
	executor, err := conn.Executor(tools, toolbus.ExecutorOptions{Drain: drain})
	if err != nil {
		return nil, err
	}
	client, err := conn.Client(toolbus.ClientOptions{Logger: log})
	if err != nil {
		return nil, err
	}
	serving, ended := make(chan struct{}), make(chan error, 1)
	running := context.WithoutCancel(t.Context()) // t.Context ends before the clean-up functions run
	go func() { ended <- toolbus.Serve(running, dispatcher, executor, func() { close(serving) }) }()
	select {
	case <-serving:
	case err := <-ended:
		return nil, err
	}
	t.Cleanup(func() {
		_ = client.Close()
		conn.Close()
		if err := <-ended; err != nil {
			t.Errorf("toolbustest: %v", err)
		}
	})
	return &Bus{client, conn, srv.URL(), c, t}, nil
}
