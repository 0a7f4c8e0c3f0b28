package executorapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// maxLogin is the largest entry of a login in bytes.
const maxLogin = 64 << 10

var errNoLogin = errors.New("within 5 s, no dispatcher answered that knows logins at MCP servers")

// Logins are the sealed entries of logins on the bus, as package oauth stores them.
type Logins struct{ Client *Client }

// Read returns an entry and its revision, which is 0 if the bucket lacks it.
func (l Logins) Read(ctx context.Context, id string) (data []byte, revision uint64, err error) {
	a, err := l.ask(ctx, login{ID: id})
	return a.Data, a.Revision, err
}

// Write stores an entry if its revision is still the given one. It reports whether it was. It repeats the request for
// 5 s, so data must differ from everything that was stored before.
func (l Logins) Write(ctx context.Context, id string, data []byte, revision uint64) (stored bool, err error) {
	a, err := l.ask(ctx, login{ID: id, Data: data, Revision: revision})
	return bytes.Equal(a.Data, data), err
}

// loginTime is the longest time of a request for the entry of a login: the caller may have a token that it can use.
const loginTime = 5 * time.Second

func (l Logins) ask(ctx context.Context, q login) (a login, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loginTime, errNoLogin)
	defer cancel()
	err = l.Client.insist(ctx, "the entry of a login", func(ctx context.Context) error {
		return l.Client.put(ctx, subjects.OpLogin, q, &a)
	})
	return a, err
}

// login requests the entry of a login, and is the answer. With Data, it stores that first, if the entry has the
// revision. The answer has the entry as it is then.
type login struct {
	ID       string `json:"id,omitzero"`
	Data     []byte `json:"data,omitzero"`
	Revision uint64 `json:"revision,omitzero"`
}

// login answers a request for the entry of a login. Executors of all pools may ask: the id is a secret of those that
// have the file of the login, and the entry is sealed with the key in that file.
func (d *Server) login(ctx context.Context, _ executorName, q login) (login, error) {
	if !subjects.ValidLogin(q.ID) || len(q.Data) > maxLogin {
		return login{}, refuse(envelope.CodeMalformed, "the id or the size of the entry of a login is invalid")
	}
	stream, err := d.JS.Stream(ctx, subjects.LoginsStream)
	if err != nil {
		return login{}, fmt.Errorf("stream %s: %w", subjects.LoginsStream, bus.MissingStreamError(err))
	}
	subject := subjects.Login(q.ID)
	if len(q.Data) > 0 {
		msg := &nats.Msg{Subject: subject, Data: q.Data}
		_, err := d.JS.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(q.Revision))
		if err != nil && !bus.HasErrorCode(err, bus.CodeWrongLast) {
			return login{}, err
		}
	}
	msg, err := stream.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return login{}, nil
	case err != nil:
		return login{}, err
	}
	return login{Data: msg.Data, Revision: msg.Sequence}, nil
}
