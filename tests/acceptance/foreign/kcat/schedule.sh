#!/bin/sh
# Schedules a job by one line of JSON: every three seconds. Arguments: bootstrap servers, the job's name, more words for kcat.
set -eu
bootstrap=$1 name=$2
shift 2
echo '{"name":"'"$name"'","handler":"demo.echo","every":"3s","payload":{"from":"kcat"}}' |
  kcat -P -b "$bootstrap" -t waterclock.job-events -H content-type=application/json -k "default:$name" "$@"
