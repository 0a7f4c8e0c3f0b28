package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A process that starts waits at most electionTime for the servers to elect a leader, and asks every electionPause.
const (
	electionTime  = 30 * time.Second
	electionPause = 250 * time.Millisecond
)

// levelAnswer is the time within which a server must answer [CheckLevel].
const levelAnswer = 2 * time.Second

// CheckLevel returns an error if the JetStream API level of the server is below 4, if JetStream is not enabled for this
// account, or if this connection may not use it. It waits at most 2 s for an answer.
func CheckLevel(ctx context.Context, js jetstream.JetStream) error {
	once, cancel := context.WithTimeout(ctx, levelAnswer)
	defer cancel()
	if err := mayAsk(once, js.Conn()); err != nil {
		return err
	}
	info, err := js.AccountInfo(once)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("JetStream: %w", err)
	case err != nil:
		return noJetStream(err, denied(js.Conn()), js.Conn().ConnectedClusterName() != "")
	case info.API.Level < minAPILevel:
		return fmt.Errorf("the server's JetStream API level is %d, Toolbus needs %d: use nats-server %s or newer",
			info.API.Level, minAPILevel, minServer)
	}
	return nil
}

// IsPermissionDenied reports whether err, an error of [CheckLevel], means that this connection may not use JetStream,
// or that JetStream is not enabled.
func IsPermissionDenied(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}

// mayAsk returns an error if the server does not let this connection send requests to JetStream.
func mayAsk(ctx context.Context, nc *nats.Conn) error {
	if MayPublish(ctx, nc, jetstream.DefaultAPIPrefix+"INFO") {
		return nil
	}
	return denied(nc)
}

// MayPublish reports whether the server lets this connection publish to subject. It publishes an empty message without
// a reply subject, and then waits for a PONG: a permission error arrives before the PONG. MayPublish returns true if
// the message cannot be sent, or if ctx ends first.
func MayPublish(ctx context.Context, nc *nats.Conn, subject string) bool {
	if nc.Publish(subject, nil) != nil || nc.FlushWithContext(ctx) != nil {
		return true
	}
	err := lastError(ctx, nc) // not LastError: on a busy machine it may return nil, and then every subject is permitted
	return !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), strconv.Quote(subject))
}

// noJetStream returns the error of CheckLevel for a request that failed with err. denied is the permission error of the
// server, or nil. clustered means that the server is one of a cluster.
func noJetStream(err, denied error, clustered bool) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("JetStream: %w: put `jetstream: enabled` into the account in the server's configuration", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return fmt.Errorf("JetStream: %w: put a jetstream block into the server's configuration", err)
	case denied != nil:
		return denied
	case passing(err) && !clustered:
		return fmt.Errorf("JetStream does not answer, although the server accepts connections: %w: restart the server, "+
			"its log says what it does", err)
	case passing(err):
		return fmt.Errorf("JetStream has no leader: %w: start the other servers of the cluster, "+
			"more than half of them have to be up", err)
	}
	return fmt.Errorf("JetStream: %w", err)
}

// denied returns an error if the last error of the server is that this connection may not send requests to JetStream,
// or not subscribe to its answers. Such a request times out, as it does while the servers have no leader.
func denied(nc *nats.Conn) error {
	err := LastError(nc)
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	for _, subject := range []string{jetstream.DefaultAPIPrefix, cmp.Or(nc.Opts.InboxPrefix, nats.InboxPrefix)} {
		if strings.Contains(err.Error(), `"`+subject) {
			return fmt.Errorf("the user may not use JetStream: %w: give it the permissions of its role, "+
				"see docs/operations.md", err)
		}
	}
	return nil
}

// passing reports whether err may mean that the servers have no leader: a server reports it, or the request timed out.
func passing(err error) bool {
	return HasErrorCode(err, CodeElecting) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// atHand bounds the wait for the lock of the connection, which is free within less unless the connection reconnects.
const atHand = 5 * time.Millisecond

// LastError returns the last error of the connection, usually one that the server reported. It returns nil if there is
// none, and also if nc.LastError blocks for more than 5 ms, as it can during a reconnect.
func LastError(nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), atHand)
	defer cancel()
	return lastError(ctx, nc)
}

// lastError returns the last error of the connection, or nil if it has no error yet or ctx ends first.
func lastError(ctx context.Context, nc *nats.Conn) error {
	last := make(chan error, 1)
	go func() { last <- nc.LastError() }() // ends when the connection releases its lock
	select {
	case err := <-last:
		return err
	case <-ctx.Done():
		return nil
	}
}
