package history_test

import (
	"os"
	"testing"

	"github.com/weft-fabric/weft/internal/history"
)

func TestMain(m *testing.M) {
	history.ServeIfChild() // the servers of a run are this very program
	os.Exit(m.Run())
}
