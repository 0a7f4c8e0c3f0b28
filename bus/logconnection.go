package bus

import (
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
	tell("the bus complains", "err", err, "subject", subject)
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
