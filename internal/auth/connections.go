package auth

// Connections of a server, and of each account for tokens. The server counts those of an account on all servers of a
// cluster together. So on each server [Reserved] are left for dispatchers and administrators, also when all clients are
// on one of them.
const (
	// Connections is the limit of each server. It includes connections that have not shown a token yet.
	Connections = 10_000
	// Reserved are connections of each server that the accounts for tokens cannot use.
	Reserved = 100
	// AgentConnections is the limit of the account AGENTS.
	AgentConnections    = 7500
	ExecutorConnections = 2000
	AuditorConnections  = 400
	_                   = uint(Connections - Reserved - AgentConnections - ExecutorConnections - AuditorConnections)
)
