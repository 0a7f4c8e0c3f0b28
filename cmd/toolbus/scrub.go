package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/health"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// mayScrub returns an error if the streams cannot be read without secrets.
func (g *global) mayScrub(ctx context.Context) error {
	a, err := g.access()
	if err == nil {
		a, err = a.As(ctx, g.self(auth.Operator))
	}
	if err == nil && a.Credentials != "" {
		example := "keys in the folder of `toolbus keys init`"
		if a.OwnTools() != "" {
			example = filepath.Join(g.env.devState(), "keys") + " of `toolbus dev`, or keys in its --data-dir"
		}
		err = usagef("--scrub reads the streams, which no token permits: name the folder of the deployment's secrets with "+
			"--secrets-dir, for example %s", example)
	}
	return err
}

// scrub reads all streams, with the rights of a dispatcher if keys names the folder of the secrets.
func (g *global) scrub(ctx context.Context, keys string) ([]admin.Check, error) {
	a, err := g.access()
	if err != nil {
		return nil, err
	}
	a.Credentials = "" // the secrets authenticate the connection
	var o toolbus.Options
	if err := a.Into(&o); err != nil {
		return nil, err
	}
	if keys != "" {
		secrets, err := deployment.Load(keys)
		if err != nil {
			return nil, err
		}
		public, err := secrets.Dispatcher.PublicKey()
		if err != nil {
			return nil, err
		}
		o.NATS = append(o.NATS, nats.Nkey(public, secrets.Dispatcher.Sign))
	}
	nc, err := bus.Dial(a.Server, natsserver.Doctor, o.NATS...)
	if err != nil {
		return []admin.Check{envelope.Failed("scrub", err.Error(), bus.ConnectHint(err))}, nil
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	checks := health.Scrub(ctx, js, g.scrubbing())
	return checks, context.Cause(ctx)
}

// progressPause is the time between two lines about what is read.
const progressPause = 2 * time.Second

// scrubbing returns a function that says on a terminal how far a scrub is.
func (g *global) scrubbing() health.Progress {
	said := time.Now()
	return func(stream string, read, of uint64) {
		if g.env.watched && time.Since(said) >= progressPause {
			said = time.Now()
			fmt.Fprintf(g.env.stderr, "%s: %d of %d messages read\n", stream, read, of)
		}
	}
}
