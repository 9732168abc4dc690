#!/bin/sh
# What the operator needs where the cluster has an authorizer: the ACLs of the principal that it
# logs in as. Give Kafka's tool and what it needs before them, such as
#   granted.sh kafka-acls.sh --bootstrap-server kaas:9092 --command-config admin.properties
set -e
user=User:${OPERATOR:-kaas-operator}
"$@" --add --allow-principal "$user" --cluster \
	--operation Describe --operation Alter --operation DescribeConfigs --operation AlterConfigs
"$@" --add --allow-principal "$user" --topic '*' \
	--operation Create --operation Delete --operation Describe --operation Alter --operation DescribeConfigs --operation AlterConfigs
