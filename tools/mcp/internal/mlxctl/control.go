package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/program"
)

// The ports of models.
const (
	firstPort = 8100
	lastPort  = 8139
)

// patience is how often the port of a model that starts is looked at.
const patience = 50 * time.Millisecond

// control holds the models of this machine, at most one for each port.
type control struct {
	launcher launcher

	mu    sync.Mutex
	slots map[int]*slot
	ended map[int]string // by port, the key of the call that unloaded last
	over  bool           // nothing is loaded any more
}

// slot is a port that is in use.
type slot struct {
	model, key string
	server     *launched // nil while it is about to be started
	loaded     bool
	ending     bool
}

func newControl(l launcher) *control {
	return &control{launcher: l, slots: map[int]*slot{}, ended: map[int]string{}}
}

type loading struct {
	Model string `json:"model"`
	Port  int    `json:"port"`
}

type loaded struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
	Port    int    `json:"port"`
	Model   string `json:"model"`
}

type unloading struct {
	Port int `json:"port"`
}

type unloaded struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
	Port    int    `json:"port"`
}

func (c *control) load(ctx context.Context, call *program.Call, in loading, _ *program.Stream) (program.Result, error) {
	if err := check(in.Port); err != nil {
		return program.Result{}, err
	}
	if in.Model == "" || !c.launcher.has(in.Model) {
		return program.Result{}, failed("model_not_found", "name", "there is no model of that name on this machine")
	}
	done := program.Result{Output: loaded{true, fmt.Sprintf("the model listens at port %d", in.Port), in.Port, in.Model}}
	s := &slot{model: in.Model, key: call.IdempotencyKey}
	if already, err := c.reserve(in.Port, s); already || err != nil {
		return done, err
	}
	if err := c.start(ctx, in.Port, s); err != nil {
		return program.Result{}, err
	}
	return done, nil
}

func check(port int) error {
	if port < firstPort || port > lastPort {
		return failed("invalid_port", "range", fmt.Sprintf("models are loaded at the ports %d to %d", firstPort, lastPort))
	}
	return nil
}

// reserve takes a port for a model. already says that the same call has loaded it there before.
func (c *control) reserve(port int, s *slot) (already bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch has := c.slots[port]; {
	case c.over:
		return false, failed("launch_failed", "ending", "mlxctl is about to end")
	case has != nil && has.loaded && !has.ending && s.key != "" && has.key == s.key && has.model == s.model:
		return true, nil
	case has != nil:
		return false, failed("port_busy", "model", "another model is loaded at this port, or about to be")
	case taken(port):
		return false, failed("port_busy", "other", "something else is at this port")
	}
	c.slots[port] = s
	return false, nil
}

// start starts the model of a slot and returns when its port is taken, or nothing of it is left.
func (c *control) start(ctx context.Context, port int, s *slot) error {
	server, err := c.launcher.launch(s.model, port, func() { c.free(port, s) })
	if err != nil {
		c.free(port, s)
		return err
	}
	c.mu.Lock()
	s.server = server
	if c.over {
		server.run.End(supervisor.Terminate)
	}
	c.mu.Unlock()
	ctx, cancel := early(ctx)
	defer cancel()
	look := time.NewTicker(patience)
	defer look.Stop()
	for {
		select {
		case <-server.gone:
			return server.why()
		case <-ctx.Done():
			return c.giveUp(server)
		case <-look.C:
			if listens(port) && c.settle(s) {
				return nil
			}
		}
	}
}

// early ends ctx so long before its deadline that a model can still be ended by then.
func early(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, has := ctx.Deadline()
	if !has {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(grace+grace/2, time.Until(deadline)/2)))
}

// settle notes that a model is loaded, unless it has ended or is about to.
func (c *control) settle(s *slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-s.server.gone:
		return false
	default:
	}
	s.loaded = !c.over
	return s.loaded
}

// giveUp ends a model that takes too long.
func (c *control) giveUp(server *launched) error {
	server.run.End(supervisor.Terminate)
	<-server.gone
	e := failed("launch_failed", "deadline", "the model did not listen in time, and was ended")
	if errors.Is(server.failed, supervisor.ErrSurvivors) {
		e.Effect = program.EffectUnknown
	}
	return e
}

// free gives the port of a slot back: whenever its model ends, by itself too.
func (c *control) free(port int, s *slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots[port] == s {
		delete(c.slots, port)
	}
}

// unload does not stop when ctx ends: a model that is about to end is no use to anybody.
func (c *control) unload(
	_ context.Context, call *program.Call, in unloading, _ *program.Stream,
) (program.Result, error) {
	if err := check(in.Port); err != nil {
		return program.Result{}, err
	}
	message := fmt.Sprintf("the model at port %d is unloaded", in.Port)
	done := program.Result{Output: unloaded{true, message, in.Port}}
	server, already := c.release(in.Port, call.IdempotencyKey)
	switch {
	case already:
		return done, nil
	case server == nil:
		return program.Result{}, failed("not_listening", "nothing", "no model that mlxctl has loaded listens at this port")
	}
	<-server.gone
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[in.Port] = call.IdempotencyKey
	return done, nil
}

// release tells the model at a port to end. already says that the same call has done so before.
func (c *control) release(port int, key string) (server *launched, already bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key != "" && c.ended[port] == key {
		return nil, true
	}
	s := c.slots[port]
	if s == nil || !s.loaded || s.ending {
		return nil, false
	}
	s.ending = true
	s.server.run.End(supervisor.Terminate)
	return s.server, false
}

// end ends all models and returns when nothing of them is left.
func (c *control) end() {
	c.mu.Lock()
	c.over = true
	var all []*launched
	for _, s := range c.slots {
		if s.server != nil {
			s.server.run.End(supervisor.Terminate)
			all = append(all, s.server)
		}
	}
	c.mu.Unlock()
	for _, server := range all {
		<-server.gone
	}
}
