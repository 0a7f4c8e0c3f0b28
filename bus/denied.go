package bus

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// The server drops what a connection may not publish, and leaves out what it may not subscribe to. It says so to
// the connection, and nothing to whoever waits for an answer.

// noEar reports whether an error says that a connection may not subscribe to where its answers come.
func noEar(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription to ")
}

// unheard returns why this client can hear no answer; nil is not known.
func (c *Client) unheard() *envelope.Error {
	if c.nc.FlushTimeout(levelAnswer) != nil { // by then the server has said so
		return nil
	}
	if err := c.forbidden(""); err != nil {
		return c.notAllowed(err)
	}
	return nil
}

// forbidden returns what the server last said that this connection may not do, if that is why there is no answer
// to a message on subject: it may not publish there, or not subscribe to where the answer comes. A connection that
// is being made anew says nothing.
func (c *Client) forbidden(subject string) error {
	err := lastError(c.nc)
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	for _, says := range []string{"Publish to " + strconv.Quote(subject), `Subscription to "` + c.inbox} {
		if strings.Contains(err.Error(), says) {
			return err
		}
	}
	return nil
}
