# Makes directories until all of the set are there.
set $nfiles=1000000
set $dirwidth=100
set $nthreads=1

define fileset name=dirs,path=/,leafdirs=$nfiles,dirwidth=$dirwidth

define process name=maker,instances=1
{
  thread name=maker,instances=$nthreads
  {
    flowop makedir name=make,filesetname=dirs
  }
}

run 86400
