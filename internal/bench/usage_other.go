//go:build !linux

package bench

import (
	"errors"
	"time"
)

var errPlatform = errors.New("bench measures CPU and memory on Linux only")

func ownCPU() (time.Duration, error)        { return 0, errPlatform }
func processCPU(int) (time.Duration, error) { return 0, errPlatform }
func residentMB(int) (float64, error)       { return 0, errPlatform }
