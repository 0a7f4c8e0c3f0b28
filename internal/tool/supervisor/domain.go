package supervisor

// Reach is the power that runs have over other processes of the same user on a host. It depends on the Landlock version
// of the kernel, and on the capabilities of the executor.
type Reach string

// Values of Reach.
const (
	// ReachOwn means that a run reaches no process outside: it sends no signal, does not attach, and reads no memory,
	// environment or open file.
	ReachOwn Reach = ""
	// ReachSignals means that a run can send signals to other processes.
	ReachSignals Reach = "signals"
	// ReachAll means that Landlock does not protect other processes from runs, or not completely.
	ReachAll Reach = "all"
)
