package tool

// ParseErrors returns the errors that an errors.md declares, and its problems.
func ParseErrors(raw []byte) (declared []ErrorSpec, problems []Problem) {
	for _, s := range parseErrorspec(raw).sections {
		declared, problems = append(declared, s.spec), append(problems, s.problems...)
	}
	return declared, problems
}
