package bus

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
)

// LogConnection returns options with which a connection logs losses, reconnects and asynchronous errors to log. Without
// them nats.go prints asynchronous errors to standard error and reports no losses or reconnects. If connections share
// the options, they warn once of the loss of the first one, and once when none is lost any more. Meanwhile lost
// connections warn of each error once, such as that the server refuses them.
func LogConnection(log *slog.Logger) []nats.Option {
	l := &lossLog{log: log, lost: map[*nats.Conn]bool{}, said: map[string]bool{}}
	return []nats.Option{
		nats.DisconnectErrHandler(l.lose),
		nats.ReconnectHandler(l.regain),
		nats.ErrorHandler(l.complain),
	}
}

// lossLog logs which connections were lost and have not reconnected.
type lossLog struct {
	log  *slog.Logger
	mu   sync.Mutex
	lost map[*nats.Conn]bool
	said map[string]bool // errors of lost connections
}

func (l *lossLog) complain(nc *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tell := l.log.Warn
	if l.lost[nc] {
		if l.said[err.Error()] {
			tell = l.log.Debug
		}
		l.said[err.Error()] = true
	}
	tell(complaint(err), "err", err, "subject", subject, "connection", nc.Opts.Name)
}

// complaint says what an asynchronous error of a connection means.
func complaint(err error) string {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return "the server refuses the connection: its credential is missing, expired, revoked or of another deployment, " +
			"or no dispatcher answers for it"
	case errors.Is(err, nats.ErrPermissionViolation):
		return "the server refuses a message or a subscription: the user of this process may not use the subject"
	case errors.Is(err, nats.ErrSlowConsumer):
		return "messages were dropped: this process does not read them as fast as they come"
	}
	return "the server reports an error of a connection"
}

func (l *lossLog) lose(nc *nats.Conn, err error) {
	if err == nil { // this process closed the connection
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tell := l.log.Debug
	if l.forgetClosed(); len(l.lost) == 0 {
		tell = l.log.Warn
	}
	l.lost[nc] = true
	tell("connection to the bus lost", "err", err, "connection", nc.Opts.Name)
}

func (l *lossLog) regain(nc *nats.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tell, was := l.log.Debug, l.lost[nc]
	delete(l.lost, nc)
	if l.forgetClosed(); was && len(l.lost) == 0 {
		tell = l.log.Warn
		clear(l.said)
	}
	tell("connected to the bus again", "server", Redacted(nc.ConnectedUrl()), "connection", nc.Opts.Name)
}

// forgetClosed removes connections that were closed while they were lost. They do not reconnect.
func (l *lossLog) forgetClosed() {
	for nc := range l.lost {
		if nc.IsClosed() {
			delete(l.lost, nc)
		}
	}
}
