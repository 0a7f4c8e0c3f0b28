package subjects

// The bucket of run records and its subjects. Only dispatchers have access to it.
const (
	RunsStream = "KV_runs"
	RunsAll    = runsPrefix + ">"
	RunRecords = runsPrefix + "*.*" // see [Run]

	runsPrefix = "$KV.runs."
)

// Run returns the subject of the record of a run of a tenant.
func Run(tenant, id string) string { return tokens(runsPrefix, tenant, id) }

// RunPlace returns the subject of the empty message that counts a run among those of the root family of its agent.
func RunPlace(tenant, root, id string) string { return tokens(runsPrefix, tenant, root, id) }

// RunPlaces returns the filter of all [RunPlace] of a root family.
func RunPlaces(tenant, root string) string { return tokens(runsPrefix, tenant, root) + ".*" }

// RunsOf returns the filter of the records of all runs of a tenant.
func RunsOf(tenant string) string { return tokens(runsPrefix, tenant) + ".*" }
