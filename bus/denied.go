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

// deniedOn returns what the server last said that this connection may not do, if that is why there is no answer
// to a message on subject: it may not publish there, or not subscribe to an inbox, which is one of inboxes or one of
// the connection's own. A connection that is being made anew says nothing.
func deniedOn(nc *nats.Conn, subject string, inboxes ...string) error {
	err := lastError(nc)
	if errors.Is(err, nats.ErrPermissionViolation) && concerns(err.Error(), subject, append(inboxes, nc.NewInbox())) {
		return err
	}
	return nil
}

// concerns reports whether the server speaks of publishing to subject, or of subscribing beside one of inboxes.
func concerns(says, subject string, inboxes []string) bool {
	if strings.Contains(says, "Publish to "+strconv.Quote(subject)) {
		return true
	}
	for _, inbox := range inboxes {
		if end := strings.LastIndexByte(inbox, '.'); strings.Contains(says, `Subscription to "`+inbox[:end+1]) {
			return true
		}
	}
	return false
}

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

// forbidden is deniedOn for what this client asks on a subject.
func (c *Client) forbidden(subject string) error { return deniedOn(c.nc, subject, c.inbox) }
