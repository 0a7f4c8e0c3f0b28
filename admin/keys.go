package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/health"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DiagnoseWithSecrets checks a deployment with its secrets, which `toolbus keys init` wrote to the folder secretsDir.
// It checks the servers as the system account, the streams as a dispatcher, and the rest as an operator, with a token
// that it signs itself and that expires after 1 minute. profile is the expected profile of the deployment; "" is the
// profile that the folder names. DiagnoseWithSecrets returns an error only if the secrets cannot be read.
func DiagnoseWithSecrets(ctx context.Context, url, secretsDir, profile string, connect ...nats.Option) (
	[]Check, error) {
	keys, err := deployment.Load(secretsDir)
	if err != nil {
		return nil, err
	}
	if profile != "" {
		keys.Profile = profile
	}
	return causesFirst(withKeys(ctx, url, keys, connect)), nil
}

func withKeys(ctx context.Context, url string, keys *deployment.Keys, connect []nats.Option) []Check {
	sys, err := dialAs(url, keys.System, connect)
	if err != nil {
		return []Check{envelope.Failed("server", "as the account SYS: "+err.Error(), bus.ConnectHint(err))}
	}
	defer sys.Close()
	nc, err := dialAs(url, keys.Dispatcher, connect)
	if err != nil {
		return []Check{envelope.Failed("server", "as the account TB: "+err.Error(), bus.ConnectHint(err))}
	}
	defer nc.Close()
	want := health.Want{Profile: keys.Profile}
	checks := append([]Check{inTB(ctx, nc)}, health.Servers(ctx, sys, want)...)
	js, err := jetstream.New(nc)
	if err == nil {
		err = bus.CheckLevel(ctx, js)
	}
	if err != nil {
		return append(checks, envelope.Failed("jetstream", err.Error(), "")) // err includes the fix
	}
	checks = append(checks, health.Placed(ctx, js, want)...)
	token, p, err := operatorToken(ctx, js, keys)
	if err != nil {
		return append(checks, envelope.Failed("tokens", err.Error(), "start a dispatcher with --secrets-dir, or restart "+
			"those that run: they create missing streams when they start"))
	}
	o := toolbus.ClientOptions{Tenant: p.Tenant, Actor: p.Actor, Token: func() string { return token }}
	found := diagnose(ctx, url, o, connect)
	if slices.ContainsFunc(found, unlooked) { // no dispatcher looks for the operator
		found = slices.DeleteFunc(found, unlooked)
		checks = slices.Concat(checks, health.Look(ctx, js, time.Now(), nil, nil), health.Behind(ctx, js))
	}
	return joined(checks, found)
}

// unlooked reports whether a check says that streams and executors are not looked at.
func unlooked(c Check) bool { return c.Name == "jetstream" }

// joined returns the checks of two who look at the same deployment. A row of both is there once, as the one that is
// worse off sees it.
func joined(own, dispatchers []Check) (all []Check) {
	for _, c := range dispatchers {
		at := slices.IndexFunc(own, func(o Check) bool { return o.Name == c.Name })
		switch {
		case at < 0:
			all = append(all, c)
		case severity(c) > severity(own[at]):
			own[at] = c
		}
	}
	return append(own, all...)
}

// severity orders the statuses of checks that were made.
func severity(c Check) int {
	return slices.Index([]envelope.CheckStatus{CheckOK, CheckWarning, CheckFailed}, c.Status)
}

func dialAs(url string, key nkeys.KeyPair, connect []nats.Option) (*nats.Conn, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	return bus.Dial(url, natsserver.Doctor, append(append([]nats.Option{}, connect...), nats.Nkey(public, key.Sign))...)
}

// inTB checks that the key of dispatchers leads to the account TB, which has all streams, and has all permissions
// there.
func inTB(ctx context.Context, nc *nats.Conn) Check {
	info, ok := aboutSelf(ctx, nc)
	switch {
	case !ok:
		return envelope.Failed("rights of dispatchers", "missing: publish "+subjectSelf,
			"give their user no permissions in the servers' configuration: it may do everything in its account")
	case info.Account != auth.TB:
		return envelope.Failed("rights of dispatchers", "their key leads to the account "+info.Account,
			"write the configuration of the servers again with `toolbus keys servers`, and restart them")
	case info.Permissions != nil:
		return envelope.Failed("rights of dispatchers", fmt.Sprintf("missing: they may publish %v, and hear %v, alone",
			info.Permissions.Publish, info.Permissions.Subscribe),
			"give their user no permissions in the servers' configuration: it may do everything in its account")
	}
	return envelope.Well("rights of dispatchers", "everything in the account "+auth.TB)
}

// operatorToken signs an operator token for this check with the current signing key of the deployment.
func operatorToken(ctx context.Context, js jetstream.JetStream, keys *deployment.Keys) (
	string, auth.Principal, error) {
	now := time.Now()
	p := auth.Principal{
		Tenant: toolbus.DefaultTenant, Actor: "operator://doctor", Role: auth.Operator, ID: auth.NewID(),
		Family: auth.NewID(), Issued: now, Expires: now.Add(time.Minute),
	}
	stream, err := js.Stream(ctx, subjects.ControlStream)
	if err != nil {
		return "", p, fmt.Errorf("no key to sign tokens with: %w", err)
	}
	if info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subjects.KeysAll)); err != nil ||
		len(info.State.Subjects) == 0 {
		return "", p, errors.Join(errors.New("there is no key yet to sign tokens with"), err)
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { stop(); <-done }()
	store, err := openTokens(ctx, js, keys)
	if err != nil {
		close(done)
		return "", p, err
	}
	go func() { defer close(done); store.Run(ctx) }()
	select {
	case <-store.Ready():
	case <-time.After(askTime):
		return "", p, errors.New("the keys that tokens are signed with could not be read")
	case <-ctx.Done():
		return "", p, ctx.Err()
	}
	token, err := store.Mint(p)
	return token, p, err
}

func openTokens(ctx context.Context, js jetstream.JetStream, keys *deployment.Keys) (*tokenstore.Store, error) {
	copies, err := replica.OpenCopies(ctx, js, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return tokenstore.Open(ctx, js, keys, tokenstore.Options{Now: time.Now, Copies: copies})
}
