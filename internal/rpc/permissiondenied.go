package rpc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The server drops what a connection may not publish, and leaves out what it may not subscribe to. It says so to
// the connection, and nothing to whoever waits for an answer.

// NotAllowed is the refusal of a caller whom the server does not let speak for its tenant and actor, or hear
// answers, as err says.
func (in *Inbox) NotAllowed(err error) *envelope.Error {
	if mayNotSubscribe(err) {
		return envelope.NewError(envelope.CodeForbidden,
			"the server does not let this connection receive answers: it may not subscribe to its inbox").
			WithFix("let the user of the server subscribe to " + subjects.Answers(in.Tenant,
				in.Actor) + ">").WithCause(err.Error())
	}
	return envelope.NewError(envelope.CodeForbidden,
		fmt.Sprintf("the server does not let this connection act for tenant %q and actor %q", in.Tenant,
			in.Actor)).WithCause(err.Error())
}

// mayNotSubscribe reports whether an error says that a connection may not subscribe to where its answers come.
func mayNotSubscribe(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription to ")
}

// flushTime bounds the wait for what the server says of a subscription.
const flushTime = 2 * time.Second

// SubscriptionRefusal returns why the server lets this inbox get no answers. It is nil if the server has not said so.
func (in *Inbox) SubscriptionRefusal() *envelope.Error {
	if in.NC.FlushTimeout(flushTime) != nil { // by then the server has said so
		return nil
	}
	if err := in.Forbidden(""); err != nil {
		return in.NotAllowed(err)
	}
	return nil
}

// Forbidden returns what the server last said that this connection may not do, if that is why there is no answer
// to a message on subject: it may not publish there, or not subscribe to where the answer comes. A connection that
// is being made anew says nothing.
func (in *Inbox) Forbidden(subject string) error {
	err := bus.LastError(in.NC)
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	for _, says := range []string{"Publish to " + strconv.Quote(subject), `Subscription to "` + in.prefix} {
		if strings.Contains(err.Error(), says) {
			return err
		}
	}
	return nil
}
