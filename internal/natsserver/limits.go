package natsserver

import (
	"cmp"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Limits are those that a configuration sets. Zero and less are none, and a server's defaults stand for what it leaves
// out.
type Limits struct {
	Connections   int
	Accounts      map[string]int // connections of each account
	Pending       int64          // bytes of each connection
	WriteDeadline time.Duration
	Log           string // file of the log; "" is standard error
	LogBytes      int64  // of each file
	LogFiles      int64
}

// ReadLimits reads a configuration with the parser of the server, which needs the files that it names.
func ReadLimits(file string) (l Limits, err error) {
	o := &server.Options{}
	if err := o.ProcessConfigFile(file); err != nil {
		return l, err
	}
	l = Limits{
		Connections: cmp.Or(o.MaxConn, server.DEFAULT_MAX_CONNECTIONS), Accounts: map[string]int{},
		Pending: cmp.Or(o.MaxPending, server.MAX_PENDING_SIZE), LogBytes: o.LogSizeLimit, LogFiles: o.LogMaxFiles,
		WriteDeadline: cmp.Or(o.WriteDeadline, server.DEFAULT_FLUSH_DEADLINE), Log: o.LogFile,
	}
	for _, a := range o.Accounts {
		l.Accounts[a.Name] = a.MaxActiveConnections()
	}
	return l, nil
}
