package auth

// Limits of the client connections of a server and of each account for tokens. The limit of an account holds for all
// servers of a cluster together. The limits of the accounts add up to at most Connections - Reserved. So each server
// has [Reserved] connections left for dispatchers and administrators, even if all clients are connected to that server.
const (
	// Connections is the limit of each server. It includes connections that have not shown a token yet.
	Connections = 10_000
	// Reserved is the number of connections of each server that the accounts for tokens cannot use.
	Reserved = 100
	// AgentConnections is the limit of the account AGENTS.
	AgentConnections    = 7500
	ExecutorConnections = 2000
	AuditorConnections  = 400
	_                   = uint(Connections - Reserved - AgentConnections - ExecutorConnections - AuditorConnections)
)
