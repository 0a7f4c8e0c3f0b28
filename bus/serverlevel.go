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

// How long a process that starts waits for servers which are electing a leader, or are too few to have one, and how
// often it asks again.
const (
	electionTime  = 30 * time.Second
	electionPause = 250 * time.Millisecond
)

// levelAnswer is how long a server may take to say what it can.
const levelAnswer = 2 * time.Second

// CheckLevel refuses a server whose JetStream cannot do what is needed, or that has none for us, and says which.
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
		return noJetStream(err, denied(js.Conn()))
	case info.API.Level < minAPILevel:
		return fmt.Errorf("the server's JetStream API level is %d, Toolbus needs %d: use nats-server %s or newer",
			info.API.Level, minAPILevel, minServer)
	}
	return nil
}

// IsPermissionDenied reports whether err, of [CheckLevel], says that this connection cannot ask JetStream anything.
func IsPermissionDenied(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}

// mayAsk returns the server's word that this connection may not ask JetStream.
func mayAsk(ctx context.Context, nc *nats.Conn) error {
	if MayPublish(ctx, nc, jetstream.DefaultAPIPrefix+"INFO") {
		return nil
	}
	return denied(nc)
}

// MayPublish reports whether the server lets this connection publish to a subject, by a message without a body or a
// reply: what is not allowed would never be answered, but what the server says of a message comes before its answer to
// the ping behind it. That it cannot be asked is no answer.
func MayPublish(ctx context.Context, nc *nats.Conn, subject string) bool {
	if nc.Publish(subject, nil) != nil || nc.FlushWithContext(ctx) != nil {
		return true
	}
	err := LastError(nc)
	return !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), strconv.Quote(subject))
}

// noJetStream says why JetStream did not say what it can; denied is what the server does not allow, if it told.
func noJetStream(err, denied error) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("JetStream: %w: put `jetstream: enabled` into the account in the server's configuration", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return fmt.Errorf("JetStream: %w: put a jetstream block into the server's configuration", err)
	case denied != nil:
		return denied
	case passing(err):
		return fmt.Errorf("JetStream has no leader: %w: start the other servers of the cluster, "+
			"more than half of them have to be up", err)
	}
	return fmt.Errorf("JetStream: %w", err)
}

// denied is an error if the last complaint of the server is that this connection may not ask JetStream, or not hear
// its answers: nobody answers then, as while there is no leader.
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

// passing reports whether err is of servers that have no leader: one of them says so, or nobody answers.
func passing(err error) bool {
	return HasErrorCode(err, CodeElecting) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// atHand is how long a question to the connection itself may take: longer than any that it lets through.
const atHand = 5 * time.Millisecond

// LastError returns what the server last complained of; nothing while the connection is being made anew, and
// says nothing.
func LastError(nc *nats.Conn) error {
	last := make(chan error, 1)
	go func() { last <- nc.LastError() }() // ends when the connection lets go of it
	select {
	case err := <-last:
		return err
	case <-time.After(atHand):
		return nil
	}
}
