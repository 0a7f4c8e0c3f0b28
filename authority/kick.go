package authority

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Kicker closes connections, over one to the account SYS.
type Kicker struct{ nc *nats.Conn }

// NewKicker returns a Kicker over nc.
func NewKicker(nc *nats.Conn) *Kicker { return &Kicker{nc} }

// Bounds of a look at all connections.
const (
	kickPage = 1024                   // connections that a server lists at once
	kickWait = 2 * time.Second        // for the first server
	kickMore = 250 * time.Millisecond // for each further one, and for what it does
)

// listed is what a server says of its connections.
type listed struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Data struct {
		Total       int `json:"total"`
		Offset      int `json:"offset"`
		Connections []struct {
			CID  uint64 `json:"cid"`
			User string `json:"authorized_user"`
		} `json:"connections"`
	} `json:"data"`
}

// Kick closes the connections of all users that match, on all servers, and returns how many. It is safe to do it again,
// and by several at once. An error says that some may be open.
func (k *Kicker) Kick(ctx context.Context, match func(accounts.User) bool) (closed int, err error) {
	answers := make(chan *nats.Msg, 100)
	inbox := k.nc.NewInbox()
	sub, err := k.nc.ChanSubscribe(inbox, answers)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }() // it ends with the connection otherwise
		err = k.nc.PublishRequest("$SYS.REQ.SERVER.PING.CONNZ", inbox, page(0))
	}
	if err != nil {
		return 0, fmt.Errorf("list connections: %w", err)
	}
	quiet := time.NewTimer(kickWait)
	defer quiet.Stop()
	for servers := 0; ; servers++ {
		select {
		case msg := <-answers:
			n, failed := k.kickAt(ctx, msg.Data, match)
			closed, err = closed+n, errors.Join(err, failed)
			quiet.Reset(kickMore)
		case <-quiet.C:
			if servers == 0 {
				err = errors.New("no server lists its connections")
			}
			return closed, err
		case <-ctx.Done():
			return closed, errors.Join(err, ctx.Err())
		}
	}
}

// Family closes the connections with tokens of a family.
func (k *Kicker) Family(ctx context.Context, family string) (closed int, err error) {
	return k.Kick(ctx, func(u accounts.User) bool { return u.Family == family })
}

// Actor closes all connections of an actor of a tenant.
func (k *Kicker) Actor(ctx context.Context, tenant, actor string) (closed int, err error) {
	tenant, actor = subjects.Token(tenant), subjects.Token(actor)
	return k.Kick(ctx, func(u accounts.User) bool { return u.Tenant == tenant && u.Actor == actor })
}

// kickAt closes what matches on one server, whose first page is answer.
func (k *Kicker) kickAt(ctx context.Context, answer []byte, match func(accounts.User) bool) (closed int, err error) {
	server, found, err := k.find(ctx, answer, match)
	for _, cid := range found {
		_, failed := k.ask(ctx, server, "KICK", fmt.Appendf(nil, `{"cid":%d}`, cid))
		if err = errors.Join(err, failed); failed == nil {
			closed++
		}
	}
	return closed, err
}

// find reads all pages of a server before anything is closed, which would move what is on them.
func (k *Kicker) find(
	ctx context.Context, answer []byte, match func(accounts.User) bool,
) (server string, found []uint64, err error) {
	for {
		var l listed
		if err := json.Unmarshal(answer, &l); err != nil {
			return server, found, fmt.Errorf("list connections: %w", err)
		}
		server = l.Server.ID
		for _, c := range l.Data.Connections {
			if u, ok := accounts.ParseUser(c.User); ok && match(u) {
				found = append(found, c.CID)
			}
		}
		next := l.Data.Offset + kickPage
		if next >= l.Data.Total {
			return server, found, nil
		}
		if answer, err = k.ask(ctx, server, "CONNZ", page(next)); err != nil {
			return server, found, err
		}
	}
}

func page(offset int) []byte {
	return fmt.Appendf(nil, `{"auth":true,"limit":%d,"offset":%d}`, kickPage, offset)
}

func (k *Kicker) ask(ctx context.Context, server, what string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kickWait)
	defer cancel()
	msg, err := k.nc.RequestWithContext(ctx, "$SYS.REQ.SERVER."+server+"."+what, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return msg.Data, nil
}
