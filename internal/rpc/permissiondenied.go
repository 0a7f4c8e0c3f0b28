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

// If a connection has no permission to publish a message or to subscribe, the server drops the message or the
// subscription, and sends an error to the connection. A request gets no answer then.

// NotAllowed returns the refusal for a request whose connection lacks a permission. err is the error of the server: the
// connection may not publish for its tenant and actor, or not subscribe to answers.
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

// mayNotSubscribe reports whether err is a permission violation of a subscription.
func mayNotSubscribe(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription to ")
}

// flushTime is how long to wait for the server's error about a subscription.
const flushTime = 2 * time.Second

// SubscriptionRefusal returns the refusal if the server does not permit the connection to receive answers, and nil
// otherwise. It waits up to 2 s.
func (in *Inbox) SubscriptionRefusal() *envelope.Error {
	if in.NC.FlushTimeout(flushTime) != nil { // after the flush, an error of the server has arrived
		return nil
	}
	if err := in.Forbidden(""); err != nil {
		return in.NotAllowed(err)
	}
	return nil
}

// Forbidden returns the last error of the connection if that is a permission violation that explains why there is no
// answer to a message on subject: the connection may not publish on subject, or not subscribe to the inbox. Otherwise,
// and during a reconnect, it returns nil.
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
