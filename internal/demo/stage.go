package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// lease is short, so that the other executor soon takes over the work of the killed one.
const lease = 2 * time.Second

// Actors of the calls.
const (
	ada = "agent://ada"
	bob = "agent://bob"
)

// stage is the bus on which the scenes run.
type stage struct {
	Options
	dir       string
	url       string
	site      *site
	guest     *toolbus.Conn
	operator  *admin.Client
	callers   map[string]*toolbus.Client
	executors map[string]*child
	memory    memory
	cleanup   []func() // called in reverse order
}

// memory holds what later scenes need from earlier ones.
type memory struct {
	duplicate toolbus.Call // the call that two actors made
	run       string       // the Run of its output
	moved     string       // reference of the call whose executor was killed
}

func (s *stage) onClose(f func()) { s.cleanup = append(s.cleanup, f) }

func (s *stage) close() {
	for _, f := range slices.Backward(s.cleanup) {
		f()
	}
}

// open starts everything. If a step fails, it stops what it has started.
func open(ctx context.Context, o Options) (*stage, error) {
	s := &stage{Options: o, callers: map[string]*toolbus.Client{}, executors: map[string]*child{}}
	for _, build := range []func(context.Context) error{s.makeFolder, s.serveSite, s.serveBus, s.dispatch, s.execute,
		s.connect} {
		if err := build(ctx); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *stage) makeFolder(context.Context) error {
	dir, err := os.MkdirTemp("", "toolbus-demo-")
	if err != nil {
		return err
	}
	s.dir = dir
	s.onClose(func() { _ = os.RemoveAll(dir) }) // if it fails, the folder stays in the system's temporary folder
	return layTools(s.toolsDir(), s.Self)
}

func (s *stage) toolsDir() string { return filepath.Join(s.dir, "tools") }

func (s *stage) serveSite(context.Context) (err error) {
	if s.site, err = startSite(); err == nil {
		s.onClose(s.site.close)
	}
	return err
}

// serveBus starts the NATS server. It syncs every write, as in production.
func (s *stage) serveBus(context.Context) error {
	srv, err := natsserver.Start(natsserver.Options{StoreDir: filepath.Join(s.dir, "nats"), SyncAlways: true})
	if err != nil {
		return err
	}
	s.url = srv.URL()
	s.onClose(srv.Stop)
	return nil
}

// dispatch runs the dispatcher in this process.
func (s *stage) dispatch(ctx context.Context) error {
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(s.toolsDir()); err != nil {
		return err
	}
	o := toolbus.Options{Topology: toolbus.Topology{Lease: lease, SyncAlways: true}, Name: "toolbus-dispatcher"}
	conn, err := toolbus.Connect(ctx, s.url, o)
	if err != nil {
		return err
	}
	s.onClose(conn.Close)
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan error, 1)
	d, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{
		InsecureNoAuth: true, AllowAll: true, Ready: func(string) { close(ready) },
	})
	if err != nil {
		stop()
		return err
	}
	go func() { ended <- d.Run(ctx) }() // close waits for it
	select {
	case <-ready:
		s.onClose(func() { stop(); <-ended })
		return nil
	case err := <-ended:
		stop()
		return errors.Join(errors.New("the dispatcher did not start"), err)
	}
}

// execute starts two executor processes.
func (s *stage) execute(ctx context.Context) error {
	for _, name := range []string{"1", "2"} {
		e, err := s.startExecutor(ctx, name)
		if err != nil {
			return err
		}
		s.executors[name] = e
		s.onClose(e.stop)
	}
	for _, e := range s.executors {
		if err := e.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) startExecutor(ctx context.Context, name string) (*child, error) {
	environ := append(slices.Clone(s.Environ), executorVariable+"="+name)
	return startChild(ctx, s.Self, environ, "executor", "--server", s.url, "--tools", s.toolsDir(), "--lease",
		lease.String(), "--slots", "4")
}

func (s *stage) connect(ctx context.Context) error {
	guest, err := toolbus.Connect(ctx, s.url, toolbus.Options{Name: "toolbus-demo"})
	if err != nil {
		return err
	}
	s.guest = guest
	s.onClose(guest.Close)
	if s.operator, err = admin.Connect(ctx, s.url, admin.Options{Name: "toolbus-demo"}); err != nil {
		return err
	}
	s.onClose(func() { _ = s.operator.Close() }) // best effort: the process ends soon
	for _, actor := range []string{ada, bob} {
		c, err := guest.Client(toolbus.ClientOptions{Actor: actor})
		if err != nil {
			return err
		}
		s.onClose(func() { _ = c.Close() }) // its connection is closed next
		s.callers[actor] = c
	}
	return nil
}
