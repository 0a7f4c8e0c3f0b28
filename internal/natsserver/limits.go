package natsserver

import (
	"cmp"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Limits are the limits that a server configuration sets, or the defaults of the server. Values of 0 or less mean no
// limit.
type Limits struct {
	Connections   int
	Accounts      map[string]int // connections of each account, by account name
	Pending       int64          // bytes that the server buffers for a connection
	WriteDeadline time.Duration
	Log           string // log file; "" is standard error
	LogBytes      int64  // bytes of each log file
	LogFiles      int64
	SyncAlways    bool // each write is on disk before it is acknowledged
}

// ReadLimits parses a configuration with the parser of the server. The parser opens the TLS files that the
// configuration names.
func ReadLimits(file string) (l Limits, err error) {
	o := &server.Options{}
	if err := o.ProcessConfigFile(file); err != nil {
		return l, err
	}
	l = Limits{
		Connections: cmp.Or(o.MaxConn, server.DEFAULT_MAX_CONNECTIONS), Accounts: map[string]int{},
		Pending: cmp.Or(o.MaxPending, server.MAX_PENDING_SIZE), LogBytes: o.LogSizeLimit, LogFiles: o.LogMaxFiles,
		WriteDeadline: cmp.Or(o.WriteDeadline, server.DEFAULT_FLUSH_DEADLINE), Log: o.LogFile,
		SyncAlways: o.SyncAlways,
	}
	for _, a := range o.Accounts {
		l.Accounts[a.Name] = a.MaxActiveConnections()
	}
	return l, nil
}
