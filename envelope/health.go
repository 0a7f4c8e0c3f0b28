package envelope

// CheckStatus is the result of one check: passed, passed with a warning, or failed.
type CheckStatus string

// Values of [CheckStatus].
const (
	CheckOK      CheckStatus = "ok"
	CheckWarning CheckStatus = "warn"
	CheckFailed  CheckStatus = "fail"
)

// Health holds the checks of a deployment that a dispatcher makes for an operator.
type Health struct {
	Checks []Check `json:"checks"`
}

// Check is the result of one check of a deployment.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	Says   string      `json:"says"`
	Fix    string      `json:"fix,omitzero"`
}

// Well, Doubtful and Failed return a Check with the status [CheckOK], [CheckWarning] and [CheckFailed].
func Well(name, says string) Check          { return Check{name, CheckOK, says, ""} }
func Doubtful(name, says, fix string) Check { return Check{name, CheckWarning, says, fix} }
func Failed(name, says, fix string) Check   { return Check{name, CheckFailed, says, fix} }
