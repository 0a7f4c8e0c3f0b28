package blackbox

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets four tests run at once unless a flag says otherwise: they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
