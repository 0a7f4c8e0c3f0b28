package envelope

// CheckStatus says how one check of a deployment went.
type CheckStatus string

// The results of a check.
const (
	CheckOK      CheckStatus = "ok"
	CheckWarning CheckStatus = "warn"
	CheckFailed  CheckStatus = "fail"
)

// Health is what a dispatcher says of a deployment, as operators ask it.
type Health struct {
	Checks []Check `json:"checks"`
}

// Check is one finding about a deployment.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	Says   string      `json:"says"`
	Fix    string      `json:"fix,omitzero"`
}

// Well, Doubtful and Failed are findings of a status, with what to do unless all is well.
func Well(name, says string) Check          { return Check{name, CheckOK, says, ""} }
func Doubtful(name, says, fix string) Check { return Check{name, CheckWarning, says, fix} }
func Failed(name, says, fix string) Check   { return Check{name, CheckFailed, says, fix} }
