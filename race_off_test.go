//go:build !race

package main

// raceEnabled tells that the tests run with the race detector, so that edgepod is built with it too.
const raceEnabled = false
