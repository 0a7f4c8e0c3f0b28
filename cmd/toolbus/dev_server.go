package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// devBus is a bus with accounts and tokens, whose state is in one folder.
type devBus struct {
	state string
	pool  string // pool of the executor
	keys  *deployment.Keys
}

// deploymentName is the name of every bus of `toolbus dev`. Their tokens differ all the same, because each bus has its
// own keys.
const deploymentName = "dev"

// openDevBus returns the bus with the state folder state, and creates its secrets at the first start. pool is the pool
// of its executor.
func openDevBus(state, pool string) (*devBus, error) {
	b := &devBus{state: state, pool: pool}
	var err error
	b.keys, err = deployment.LoadOrCreate(b.keysDir(), deploymentName)
	return b, err
}

// keysDir returns the folder of secrets, which neither tools nor the server should read.
func (b *devBus) keysDir() string { return filepath.Join(b.state, "keys") }

// maxStore is the space that streams may reserve, as without tokens. It is large, so that the bus starts on a small
// disk, too.
const maxStore = 1 << 40

// Server adds a configuration to the options of the server with which it accepts only clients with a key or a token.
func (b *devBus) Server(o natsserver.Options) (natsserver.Options, error) {
	public, err := b.keys.Public()
	if err != nil {
		return o, err
	}
	o.Config, err = deployment.Config(deploymentName, public, deployment.Shape{
		Server: "toolbus", Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(cmp.Or(o.Port, anyPort))),
		Store: o.StoreDir, SyncAlways: o.SyncAlways, MaxStore: maxStore,
	})
	return o, err
}

// anyPort means a free port in the configuration of a server.
const anyPort = -1

// devParts holds the options of the dispatcher and executor.
type devParts struct {
	Options    toolbus.Options
	Tools      *toolbus.Toolset
	Dispatcher toolbus.DispatcherOptions
	Executor   toolbus.ExecutorOptions
	Ready      func() // called once both serve
}

// Serve runs a dispatcher with the secrets of the bus, and an executor with a token. The executor connects when the
// dispatcher serves, and ends before it.
func (b *devBus) Serve(ctx context.Context, url string, p devParts) error {
	o := p.Options
	o.Name, o.SecretsDir = "toolbus-dispatcher", b.keysDir()
	conn, err := toolbus.Connect(ctx, url, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	serves := make(chan struct{})
	p.Dispatcher.Ready = func(string) { close(serves) }
	dispatcher, err := conn.Dispatcher(p.Tools, p.Dispatcher)
	if err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	held, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	parts.Go(func() error { return dispatcher.Run(held) })
	parts.Go(func() error {
		defer stop()
		select {
		case <-ctx.Done():
			return nil
		case <-serves:
			return b.execute(ctx, conn, url, p)
		}
	})
	return parts.Wait()
}

// execute writes credentials, runs the executor, and renews the credentials meanwhile.
func (b *devBus) execute(ctx context.Context, dispatcher *toolbus.Conn, url string, p devParts) error {
	log := p.Options.Logger
	js, err := jetstream.New(dispatcher.NATS())
	if err != nil {
		return err
	}
	copies, err := replica.OpenCopies(ctx, js, log)
	if err != nil {
		return err
	}
	store, err := tokenstore.Open(ctx, js, b.keys, tokenstore.Options{Now: time.Now, Logger: log, Copies: copies})
	if err != nil {
		return err
	}
	parts, following := errgroup.WithContext(ctx)
	following, stop := context.WithCancel(following)
	defer stop()
	parts.Go(func() error { store.Run(following); return nil })
	parts.Go(func() error {
		defer stop()
		select {
		case <-store.Ready():
		case <-ctx.Done():
			return nil
		}
		if err := b.credit(ctx, store); err != nil {
			return err
		}
		parts.Go(func() error { b.keepCredited(following, store, log); return nil })
		return b.runExecutor(ctx, url, p)
	})
	return parts.Wait()
}

func (b *devBus) runExecutor(ctx context.Context, url string, p devParts) error {
	o := p.Options
	o.CredentialsFile = b.Credential(auth.Executor)
	conn, err := toolbus.Connect(ctx, url, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	p.Executor.Ready = func(string) { p.Ready() }
	executor, err := conn.Executor(p.Tools, p.Executor)
	if err != nil {
		return err
	}
	return executor.Run(ctx)
}

// devLife is the time during which the credentials of a bus can be renewed. A running bus issues new ones in time.
const devLife = 30 * 24 * time.Hour

// user returns the principal of the user's commands and programs, or of the executor, in a role.
func (b *devBus) user(r auth.Role) auth.Principal {
	p := auth.Principal{Tenant: toolbus.DefaultTenant, Actor: toolbus.DefaultActor, Role: r}
	switch r {
	case auth.Agent:
		p.Scopes = []string{auth.ScopeAll}
	case auth.Executor:
		p.Pool = b.pool
	}
	return p
}

// Credential returns the name of the file with the user's token in a role.
func (b *devBus) Credential(r auth.Role) string { return cli.DevCredential(b.state, b.user(r)) }

// credit writes new tokens for all roles.
func (b *devBus) credit(ctx context.Context, store *tokenstore.Store) error {
	for _, r := range []auth.Role{auth.Operator, auth.Agent, auth.Executor} {
		if err := b.creditOne(ctx, store, b.user(r)); err != nil {
			return fmt.Errorf("credential of the %s: %w", r, err)
		}
	}
	return nil
}

// creditOne writes a new token of p. It keeps the family of the former token while that can be renewed for at least
// half of devLife, so that the list of credentials does not grow with each start.
func (b *devBus) creditOne(ctx context.Context, store *tokenstore.Store, p auth.Principal) error {
	file, now := cli.DevCredential(b.state, p), store.Now().Truncate(time.Second)
	p.ID, p.Issued, p.Expires = auth.NewID(), now, now.Add(auth.Life)
	mint := func() (string, error) { return store.Mint(p) }
	former, ok := formerOf(file)
	if ok && former.Role == p.Role && former.Pool == p.Pool && former.RenewUntil.After(now.Add(devLife/2)) &&
		!store.Verifier().Revoked.Revoked(&former) {
		p.Family, p.RenewUntil = former.Family, former.RenewUntil
	} else {
		p.Family, p.RenewUntil = auth.NewID(), now.Add(devLife)
		mint = func() (string, error) { return store.Issue(ctx, p, "toolbus dev") }
	}
	token, err := mint()
	if err != nil {
		return err
	}
	return cli.WriteCredential(file, token)
}

func formerOf(file string) (p auth.Principal, ok bool) {
	token, err := bus.Files{Token: file}.ReadToken()
	if err == nil {
		p, err = auth.Inspect(token)
	}
	return p, err == nil
}

// keepCredited writes new tokens long before the current ones expire.
func (b *devBus) keepCredited(ctx context.Context, store *tokenstore.Store, log *slog.Logger) {
	for timer.Sleep(ctx, auth.Life/3) {
		if err := b.credit(ctx, store); err != nil && ctx.Err() == nil {
			log.Warn("credentials were not renewed", "err", err)
		}
	}
}
